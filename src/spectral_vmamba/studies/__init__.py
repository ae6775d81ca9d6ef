"""The paper's figures and tables: what is measured, at which scale, and the numbers. Requires the extra `train`."""

from spectral_vmamba.studies.accuracy_studies import EIGENVECTORS, NEIGHBORS, ORDERS
from spectral_vmamba.studies.components_study import ComponentsStudy
from spectral_vmamba.studies.cost_study import CostStudy
from spectral_vmamba.studies.departures_study import DeparturesStudy
from spectral_vmamba.studies.dynamics_study import DynamicsStudy
from spectral_vmamba.studies.families import TABLE1
from spectral_vmamba.studies.flop_study import FlopStudy
from spectral_vmamba.studies.random_rfn_study import RandomRfnStudy
from spectral_vmamba.studies.receptive_field_study import ReceptiveFieldStudy
from spectral_vmamba.studies.rotation_study import RotationStudy
from spectral_vmamba.studies.segmentation_study import SegmentationStudy
from spectral_vmamba.studies.study import StudyOptions, StudyResult, find_study
from spectral_vmamba.studies.study_runs import describe_plan, read_result, run_study
from spectral_vmamba.studies.traversal_study import TraversalStudy

STUDIES = {
    study.name: study
    for study in (
        RotationStudy(),
        EIGENVECTORS,
        NEIGHBORS,
        CostStudy(),
        FlopStudy(),
        TABLE1,
        ReceptiveFieldStudy(),
        DynamicsStudy(),
        RandomRfnStudy(),
        TraversalStudy(),
        SegmentationStudy(),
        DeparturesStudy(),
        ComponentsStudy(),
        ORDERS,
    )
}

__all__ = ["STUDIES", "StudyOptions", "StudyResult", "describe_plan", "find_study", "read_result", "run_study"]
