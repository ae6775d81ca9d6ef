"""Figures and reports: functions from numbers to matplotlib figures. Requires the extra `plots`."""

from spectral_vmamba.utils.extras import require

require("matplotlib", "plots")  # without it, one clear line in place of a failed import further down
