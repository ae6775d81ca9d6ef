import pytest

from spectral_vmamba.metrics.catalog import CatalogRow, measure_catalog


@pytest.fixture(scope="session")
def catalog_rows() -> dict[str, CatalogRow]:
    """The table of all models at 1000 classes, by name."""
    return {row.cost.name: row for row in measure_catalog(1000)}
