{{- define "spindle.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "spindle.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "spindle.labels" -}}
{{ include "spindle.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "spindle.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "spindle.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/*
Namespaces whose KafkaClusters are looked after, as JSON: the release's own unless the values say otherwise. Empty for all.
An installation from before this was the default looked after all of them: it is not to leave its clusters alone unasked.
*/}}
{{- define "spindle.watched" -}}
{{- if and .Values.watch.all .Values.watch.namespaces -}}
{{- fail "watch.all and watch.namespaces exclude each other: write watch.all=true for every namespace, or name some" -}}
{{- end -}}
{{- if .Values.watch.all -}}
[]
{{- else -}}
{{- if and .Release.IsUpgrade (not .Values.watch.namespaces) -}}
{{- $role := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (printf "%s-%s" .Release.Namespace (include "spindle.fullname" .)) -}}
{{- range (dig "rules" list ($role | default dict)) -}}
{{- if has "secrets" (dig "resources" list .) -}}
{{- fail "this installation looks after KafkaClusters in every namespace, and by these values it would only do so in its own: write watch.all=true to keep it so, or name the namespaces, watch.namespaces={a,b}" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson (.Values.watch.namespaces | default (list .Release.Namespace)) -}}
{{- end -}}
{{- end -}}

{{- define "spindle.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}

{{- define "spindle.agentName" -}}
{{ include "spindle.fullname" . }}-agent
{{- end -}}

{{- define "spindle.agentNamespace" -}}
{{- default (printf "%s-agents" .Release.Name) .Values.agent.namespace -}}
{{- end -}}

{{- define "spindle.agentSelector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end -}}

{{- define "spindle.agentLabels" -}}
{{ include "spindle.agentSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/*
What the agents do inside a namespace that is looked after: of clusters they want to know how disks are to be probed. What
they write the admission policy narrows to status.observed of the brokers on their nodes.
*/}}
{{- define "spindle.agentRules" -}}
- apiGroups: [spindle.dev]
  resources: [kafkaclusters]
  verbs: [get]
- apiGroups: [spindle.dev]
  resources: [kafkabrokers]
  verbs: [get, list, watch]
- apiGroups: [spindle.dev]
  resources: [kafkabrokers/status]
  verbs: [patch]
{{- end -}}

{{/* What the operator does inside a namespace that it looks after. */}}
{{- define "spindle.rules" -}}
- apiGroups: [spindle.dev]
  resources: [kafkaclusters, kafkausers]
  verbs: [get, list, watch, patch]
# own: to write what no person does (an admission policy asks for it).
- apiGroups: [spindle.dev]
  resources: [kafkabrokers]
  verbs: [get, list, watch, create, patch, delete, own]
# It makes no proposal; but it may let the rebalance job do only what it may do itself.
- apiGroups: [spindle.dev]
  resources: [kafkarebalances]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [spindle.dev]
  resources: [kafkaclusters/status, kafkabrokers/status, kafkarebalances/status, kafkausers/status]
  verbs: [patch]
# Some clusters ask for this right of whoever makes objects that belong to a KafkaCluster or a KafkaUser.
- apiGroups: [spindle.dev]
  resources: [kafkaclusters/finalizers, kafkausers/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims, configmaps]
  verbs: [get, list, watch, create, patch, delete]
# Of each KafkaCluster's rebalance job: the CronJob, and the account that it runs under with what that may do.
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, create, patch]
# Asked for by Spark where the job has executors, and so to be passed on.
- apiGroups: [""]
  resources: [pods, configmaps]
  verbs: [deletecollection]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
# Pods go down by eviction, so that every PodDisruptionBudget has its say.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}

{{/* Of an admission policy: the node that the asker's token was given to, empty if it names none. */}}
{{- define "spindle.tokensNode" -}}
- name: node
  expression: >-
    has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra
    ? request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''
{{- end -}}
