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
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
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
Namespaces whose KafkaClusters Spindle manages, as JSON: the release namespace unless the values set others. Empty for all.
Earlier versions managed all namespaces by default; an upgrade must not silently stop managing their clusters.
*/}}
{{- define "spindle.watched" -}}
{{- if and .Values.watch.all .Values.watch.namespaces -}}
{{- fail "watch.all and watch.namespaces exclude each other: set watch.all=true for every namespace, or list some in watch.namespaces" -}}
{{- end -}}
{{- if .Values.watch.all -}}
[]
{{- else -}}
{{- if and .Release.IsUpgrade (not .Values.watch.namespaces) -}}
{{- $role := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (printf "%s-%s" .Release.Namespace (include "spindle.fullname" .)) -}}
{{- range (dig "rules" list ($role | default dict)) -}}
{{- if has "secrets" (dig "resources" list .) -}}
{{- fail "this installation manages KafkaClusters in every namespace, and with these values it would manage only those in its own: set watch.all=true to keep all, or list the namespaces, watch.namespaces={a,b}" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson (.Values.watch.namespaces | default (list .Release.Namespace)) -}}
{{- end -}}
{{- end -}}

{{- define "spindle.image" -}}
{{ include "spindle.imageOf" (list . .Values.image) }}
{{- end -}}

{{/* Full name of an image. Arguments: the top level, and an object with repository and tag. */}}
{{- define "spindle.imageOf" -}}
{{- $top := index . 0 -}}
{{- with index . 1 -}}
{{ include "spindle.repository" (list $top .repository) }}:{{ .tag | default $top.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* A repository with the registry of all images. Arguments: the top level, and the repository. */}}
{{- define "spindle.repository" -}}
{{- with (index . 0).Values.image.registry }}{{ . }}/{{ end }}{{ index . 1 -}}
{{- end -}}

{{/* The value allow as JSON. KafkaClusters may always name the image that they get by default. */}}
{{- define "spindle.allow" -}}
{{- $kafka := include "spindle.repository" (list . .Values.kafka.image.repository) -}}
{{- toJson (set (deepCopy .Values.allow) "images" (append (.Values.allow.images | default list) $kafka | uniq)) -}}
{{- end -}}

{{/* A security context as YAML, without the keys that are null: Helm keeps those of a nested value in some cases. */}}
{{- define "spindle.without" -}}
{{- $kept := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $kept $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $kept -}}
{{- end -}}

{{/* Annotations for a Prometheus that finds pods by them; with PodMonitors it would read everything twice. */}}
{{- define "spindle.scraped" -}}
{{- if not .Values.metrics.podMonitor.enabled -}}
prometheus.io/scrape: "true"
prometheus.io/port: "8080"
prometheus.io/path: /metrics
{{- end -}}
{{- end -}}

{{- define "spindle.agentName" -}}
{{ include "spindle.fullname" . }}-agent
{{- end -}}

{{- define "spindle.agentNamespace" -}}
{{- default (printf "%s-agents" .Release.Name) .Values.agent.namespace -}}
{{- end -}}

{{- define "spindle.agentSelector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: agent
{{- end -}}

{{- define "spindle.agentLabels" -}}
{{ include "spindle.agentSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/*
Rights of the agents in a managed namespace. They read from KafkaClusters how to probe disks. The admission policy restricts their
writes to status.observed of the brokers on their nodes.
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

{{/* The right to watch what only readFromWatches watches. */}}
{{- define "spindle.watch" -}}
{{- if .Values.readFromWatches }}, watch{{ end -}}
{{- end }}

{{/* Rights of the operator in a managed namespace. */}}
{{- define "spindle.rules" -}}
- apiGroups: [spindle.dev]
  resources: [kafkaclusters, kafkatopics, kafkausers]
  verbs: [get, list, watch, patch]
# own: to write fields that users may not write (checked by an admission policy).
- apiGroups: [spindle.dev]
  resources: [kafkabrokers]
  verbs: [get, list, watch, create, patch, delete, own]
# create: the operator creates no proposals, but can grant the rebalance job only rights that it has itself.
- apiGroups: [spindle.dev]
  resources: [kafkarebalances]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [spindle.dev]
  resources: [kafkaclusters/status, kafkabrokers/status, kafkarebalances/status, kafkatopics/status, kafkausers/status]
  verbs: [patch]
# Needed to create objects owned by a KafkaCluster or a KafkaUser, if the API server runs OwnerReferencesPermissionEnforcement.
- apiGroups: [spindle.dev]
  resources: [kafkaclusters/finalizers, kafkausers/finalizers]
  verbs: [update]
# The namespace itself: while it is being deleted, no topic is deleted with its KafkaTopic.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims, configmaps]
  verbs: [get, list, watch, create, patch, delete]
# For the rebalance job of each KafkaCluster: the CronJob, and its ServiceAccount with role and binding.
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list{{ include "spindle.watch" . }}, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list{{ include "spindle.watch" . }}, create, patch]
# Needed by Spark if the job has executors; the operator must have these rights to grant them.
- apiGroups: [""]
  resources: [pods, configmaps]
  verbs: [deletecollection]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
# Pods are stopped by eviction, so that every PodDisruptionBudget applies.
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
# For listeners of type tlsroute. Without the Gateway API, this right is to nothing.
- apiGroups: [gateway.networking.k8s.io]
  resources: [tlsroutes]
  verbs: [get, list, create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}

{{/* Variable of an admission policy: the node in the requester's token, empty if the token names none. */}}
{{- define "spindle.tokensNode" -}}
- name: node
  expression: >-
    has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra
    ? request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''
{{- end -}}
