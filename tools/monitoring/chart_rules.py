"""The chart's PrometheusRule, from the alerts."""

from tools.monitoring.alerts import ALERTS, NAMESPACE, Alert

_HEAD = """\
{{- /* Generated from tools/monitoring/alerts.py by `make generate`. Change the alerts there, not this file. */ -}}
{{- if .Values.metrics.rules.enabled }}
{{- $for := .Values.metrics.rules.for }}
{{- $page := .Values.metrics.rules.runbookUrl }}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: "{{ include "spindle.fullname" . }}"
  namespace: "{{ .Release.Namespace }}"
  labels:
    {{- include "spindle.labels" . | nindent 4 }}
    {{- with .Values.metrics.rules.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  groups:
  - name: spindle
    rules:
"""


def prometheus_rule() -> str:
    """The template's text."""
    return _HEAD + "".join(_rule(alert) for alert in ALERTS) + "{{- end }}\n"


def _rule(alert: Alert) -> str:
    indent = " " * 8
    expression = "\n".join(f"{indent}{line}" for line in _escaped(alert.expression).splitlines())
    return f"""\
    - alert: {alert.name}
      expr: |-
{expression}
      for: {{{{ $for | default "{alert.lasts}" }}}}
      labels:
        severity: {_quoted(alert.severity)}
      annotations:
        summary: {_quoted(alert.summary)}
        {{{{- if $page }}}}
        runbook_url: {{{{ printf "%s#{alert.name.lower()}" $page | quote }}}}
        {{{{- end }}}}
"""


def _quoted(text: str) -> str:
    """A single-quoted YAML string with Prometheus' templates in it."""
    return _escaped("'" + text.replace("'", "''") + "'")


def _escaped(text: str) -> str:
    """Text with Prometheus' templates, which helm must leave alone, and with helm's own in place of the namespace."""
    return text.replace("{{", '{{ "{{" }}').replace(NAMESPACE, "{{ $.Release.Namespace }}")
