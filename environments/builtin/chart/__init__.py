from environments.builtin.chart.chart import Chart

__all__ = ["Chart"]
