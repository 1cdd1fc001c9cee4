package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

const chartDir = "../../configs/kubernetes/chart"

// manifests has the objects that the chart renders. Some are optional.
type manifests struct {
	config       corev1.ConfigMap
	replicas     corev1.Service
	clients      corev1.Service
	budget       policyv1.PodDisruptionBudget
	network      *networkingv1.NetworkPolicy
	set          appsv1.StatefulSet
	certificates []certificate
	monitor      *serviceMonitor
	notes        string
}

// certificate has the fields of cert-manager.io/v1 that the chart may use.
type certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretName  string   `json:"secretName"`
		CommonName  string   `json:"commonName"`
		Duration    string   `json:"duration"`
		RenewBefore string   `json:"renewBefore"`
		URIs        []string `json:"uris"`
		DNSNames    []string `json:"dnsNames"`
		Usages      []string `json:"usages"`
		PrivateKey  struct {
			Algorithm      string `json:"algorithm"`
			Size           int    `json:"size"`
			Encoding       string `json:"encoding"`
			RotationPolicy string `json:"rotationPolicy"`
		} `json:"privateKey"`
		IssuerRef struct {
			Name  string `json:"name"`
			Kind  string `json:"kind"`
			Group string `json:"group"`
		} `json:"issuerRef"`
	} `json:"spec"`
}

// serviceMonitor has the fields of monitoring.coreos.com/v1 that the chart may use.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port      string `json:"port"`
			Scheme    string `json:"scheme"`
			Path      string `json:"path"`
			Interval  string `json:"interval"`
			TLSConfig struct {
				ServerName string `json:"serverName"`
				CA         struct {
					Secret corev1.SecretKeySelector `json:"secret"`
				} `json:"ca"`
			} `json:"tlsConfig"`
			Relabelings []struct {
				TargetLabel string `json:"targetLabel"`
				Replacement string `json:"replacement"`
			} `json:"relabelings"`
			Authorization *struct {
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// renderings are the values with which the tests render the chart.
var renderings = map[string]string{
	"defaults":  "{}",
	"five":      "replicas: 5",
	"small":     "memory: 512Mi",
	"large":     "memory: 4Gi",
	"founded":   "founding: {secretName: ''}",
	"settings":  "settings: {max-files: 1000, public-metrics: false, clock-drift: 0.001, max-holds: 5000000}",
	"slow stop": "settings: {shutdown-timeout: 1m30s}",
	"collector": `{settings: {trace-endpoint: "https://collector:4318"}, env: [{name: OTEL_EXPORTER_OTLP_CERTIFICATE, value: /etc/roots/ca.pem}],
		extraVolumes: [{name: roots, configMap: {name: roots}}], extraVolumeMounts: [{name: roots, mountPath: /etc/roots, readOnly: true}]}`,
	"cert-manager": "{replicas: 5, tls: {secretName: '', certManager: {enabled: true, issuerRef: {name: ca, kind: Issuer}, dnsNames: [stout.example.com]}}}",
	"backups":      "backups: {enabled: true, every: 2h, keep: 7, className: other}",
	"monitor":      "serviceMonitor: {enabled: true, labels: {release: prometheus}, token: {name: prom, key: token}}",
	"clients":      "networkPolicy: {clients: [{namespaceSelector: {matchLabels: {team: billing}}}]}",
	"no policy":    "networkPolicy: {enabled: false}",
	"repair":       "upgradeUnready: true",
	"placement": `{nodeSelector: {disk: nvme}, tolerations: [{key: stout, operator: Exists}], priorityClassName: high, podLabels: {team: infra}, podAnnotations: {a: b},
		image: {repository: r.example.com/s, tag: v9, pullSecrets: [{name: regcred}]}, storage: {className: fast}}`,
}

// render renders the chart as "helm install stout" in namespace stout does.
func render(values string) (map[string]string, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "stout", Namespace: "stout", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// rendered decodes each rendered object as its kind. A field that the type lacks is an
// error.
func rendered(t *testing.T, values string) *manifests {
	t.Helper()
	files, err := render(values)
	must(t, err)
	m := &manifests{notes: files["stout/templates/NOTES.txt"]}
	once := map[string]any{
		"v1 ConfigMap stout": &m.config, "v1 Service stout": &m.replicas, "v1 Service stout-client": &m.clients,
		"policy/v1 PodDisruptionBudget stout": &m.budget, "apps/v1 StatefulSet stout": &m.set,
	}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for doc := range strings.SplitSeq(text, "\n---\n") {
			var is metav1.PartialObjectMetadata
			if err := yaml.Unmarshal([]byte(doc), &is); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
			if is.Kind == "" {
				continue
			}
			if is.Namespace != "stout" {
				t.Errorf("%s %s is in namespace %q", is.Kind, is.Name, is.Namespace)
			}
			object := once[is.APIVersion+" "+is.Kind+" "+is.Name]
			delete(once, is.APIVersion+" "+is.Kind+" "+is.Name)
			switch is.APIVersion + " " + is.Kind {
			case "networking.k8s.io/v1 NetworkPolicy":
				m.network = &networkingv1.NetworkPolicy{}
				object = m.network
			case "monitoring.coreos.com/v1 ServiceMonitor":
				m.monitor = &serviceMonitor{}
				object = m.monitor
			case "cert-manager.io/v1 Certificate":
				m.certificates = append(m.certificates, certificate{})
				object = &m.certificates[len(m.certificates)-1]
			}
			if object == nil {
				t.Fatalf("an object %s %s %s, or a second one", is.APIVersion, is.Kind, is.Name)
			}
			if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
		}
	}
	for kind := range once {
		t.Fatalf("there is no %s", kind)
	}
	return m
}

// eachRendering runs a test with all renderings.
func eachRendering(t *testing.T, test func(t *testing.T, m *manifests)) {
	for name, values := range renderings {
		t.Run(name, func(t *testing.T) { test(t, rendered(t, values)) })
	}
}

// ids returns the names of the pods.
func (m *manifests) ids() (all []string) {
	for i := range int(*m.set.Spec.Replicas) {
		all = append(all, m.set.Name+"-"+strconv.Itoa(i))
	}
	return all
}

// TestChartRefuses: values that no cell can have are refused, with the reason.
func TestChartRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 1":                          "replicas",
		"replicas: 4":                          "replicas",
		"replicas: '3'":                        "replicas",
		"memory: 1G":                           "memory",
		"memory: 511Mi":                        `memory is "511Mi": give at least 512Mi`,
		"tls: {secretName: ''}":                "tls.secretName is empty",
		"tls: {certManager: {enabled: true}}":  "issuerRef has no name",
		"networkPolicy: {clients: [{}]}":       "clients",
		"memroy: 2Gi":                          "memroy",
		"backups: {enabled: true, keep: many}": "keep",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", values, err, want)
		}
	}
	chart, err := loader.Load(chartDir)
	must(t, err)
	chart.Schema = nil // as with "helm --skip-schema-validation"
	all, err := chartutil.ToRenderValues(chart, map[string]any{"replicas": 4}, chartutil.ReleaseOptions{Name: "stout", Namespace: "stout"}, nil)
	must(t, err)
	if _, err := engine.Render(chart, all); err == nil || !strings.Contains(err.Error(), "replicas is 4: a cell has 3 replicas") {
		t.Errorf("without the schema: %v", err)
	}
}

// live is the API of a cluster with one StatefulSet, or without any.
type live struct {
	dynamic.NamespaceableResourceInterface
	set map[string]any
}

func (l live) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	if apiVersion != "apps/v1" || kind != "StatefulSet" {
		return nil, false, fmt.Errorf("a lookup of %s %s", apiVersion, kind)
	}
	return l, true, nil
}

func (l live) Namespace(name string) dynamic.ResourceInterface {
	if name != "stout" {
		return nil
	}
	return l
}

func (l live) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	if l.set == nil || name != "stout" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "statefulsets"}, name)
	}
	return &unstructured.Unstructured{Object: l.set}, nil
}

// TestChartUpgradesReadyCells: an upgrade is refused while a replica is not ready, since
// it would stop another one.
func TestChartUpgradesReadyCells(t *testing.T) {
	set := func(replicas int64, status map[string]any) map[string]any {
		return map[string]any{"spec": map[string]any{"replicas": replicas}, "status": status}
	}
	three := set(3, map[string]any{"readyReplicas": int64(3)})
	two := set(3, map[string]any{"readyReplicas": int64(2)})
	for _, c := range []struct {
		what    string
		set     map[string]any
		install bool
		values  map[string]any
		want    string
	}{
		{"all are ready", three, false, nil, ""},
		{"two more replicas", three, false, map[string]any{"replicas": 5}, ""},
		{"one is down", two, false, nil, "2 of 3 replicas are ready"},
		{"all are down", set(3, map[string]any{}), false, nil, "0 of 3 replicas are ready"},
		{"without a status", map[string]any{"spec": map[string]any{"replicas": int64(5)}}, false, nil, "0 of 5 replicas are ready"},
		{"a repair", two, false, map[string]any{"upgradeUnready": true}, ""},
		{"an installation", two, true, nil, ""},
		{"no set", nil, false, nil, ""},
	} {
		chart, err := loader.Load(chartDir)
		must(t, err)
		all, err := chartutil.ToRenderValues(chart, c.values, chartutil.ReleaseOptions{Name: "stout", Namespace: "stout", IsInstall: c.install, IsUpgrade: !c.install}, nil)
		must(t, err)
		_, err = engine.RenderWithClientProvider(chart, all, live{set: c.set})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.what, err, c.want)
		}
	}
}

// TestChartValuesHaveComments: each value has a comment that begins with its name, and
// the schema has each value.
func TestChartValuesHaveComments(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	must(t, err)
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		key, _, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || strings.HasPrefix(key, "#") || strings.HasSuffix(line, ":") {
			continue
		}
		first := i
		for first > 0 && strings.HasPrefix(strings.TrimSpace(lines[first-1]), "#") {
			first--
		}
		if !strings.HasPrefix(strings.TrimSpace(lines[first]), "# "+key+" ") {
			t.Errorf("line %d: %s has no comment", i+1, key)
		}
	}
	var values map[string]any
	var schema struct{ Properties map[string]any }
	chart, err := loader.Load(chartDir)
	must(t, err)
	must(t, yaml.Unmarshal(chart.Schema, &schema))
	values = chart.Values
	for name := range values {
		if schema.Properties[name] == nil {
			t.Errorf("the schema has no %s", name)
		}
	}
	if len(values) < 10 {
		t.Errorf("only %d values", len(values))
	}
}

// TestChartLint: "helm lint" has no warning.
func TestChartLint(t *testing.T) {
	for name, values := range renderings {
		given := map[string]any{}
		must(t, yaml.Unmarshal([]byte(values), &given))
		for _, m := range lint.All(chartDir, given, "stout", true).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// TestManifestsFitTogether: references between objects have a target.
func TestManifestsFitTogether(t *testing.T) {
	eachRendering(t, func(t *testing.T, m *manifests) {
		labels := m.set.Spec.Template.Labels
		selectors := map[string]map[string]string{
			"the set": m.set.Spec.Selector.MatchLabels, "the service": m.replicas.Spec.Selector, "the clients' service": m.clients.Spec.Selector,
			"the budget": m.budget.Spec.Selector.MatchLabels,
		}
		if m.network != nil {
			selectors["the policy"] = m.network.Spec.PodSelector.MatchLabels
			selectors["the policy's raft"] = m.network.Spec.Ingress[1].From[0].PodSelector.MatchLabels
		}
		for _, c := range m.set.Spec.Template.Spec.TopologySpreadConstraints {
			selectors[c.TopologyKey] = c.LabelSelector.MatchLabels
		}
		for name, selector := range selectors {
			for k, v := range selector {
				if labels[k] != v {
					t.Errorf("%s selects %s=%s, which the pods do not have", name, k, v)
				}
			}
			if len(selector) == 0 {
				t.Errorf("%s selects everything", name)
			}
		}
		if m.set.Spec.ServiceName != m.replicas.Name || m.replicas.Spec.ClusterIP != corev1.ClusterIPNone || !m.replicas.Spec.PublishNotReadyAddresses {
			t.Error("the replicas do not find each other before they are ready")
		}
		if s := m.clients.Spec; s.Type != corev1.ServiceTypeClusterIP || s.ClusterIP != "" || s.PublishNotReadyAddresses || len(s.Ports) != 1 || s.Ports[0].TargetPort.String() != "api" {
			t.Errorf("clients get more than the API of ready replicas: %+v", s)
		}
		if m.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			t.Error("the pods start one after the other: no cell is ever founded")
		}
		if m.budget.Spec.MaxUnavailable.IntValue() != 1 {
			t.Error("more than one replica may be drained at a time")
		}
		if p := m.set.Spec.PersistentVolumeClaimRetentionPolicy; p == nil || p.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType || p.WhenScaled != p.WhenDeleted {
			t.Error("volumes are deleted with the set")
		}
		pod := m.set.Spec.Template.Spec
		var volumes []string
		for _, v := range m.set.Spec.VolumeClaimTemplates {
			volumes = append(volumes, v.Name)
		}
		for _, v := range pod.Volumes {
			volumes = append(volumes, v.Name)
		}
		var mounted []string
		for _, v := range pod.Containers[0].VolumeMounts {
			mounted = append(mounted, v.Name)
		}
		slices.Sort(volumes)
		slices.Sort(mounted)
		if mounted = slices.Compact(mounted); !slices.Equal(mounted, volumes) {
			t.Errorf("volumes %q, mounted %q", volumes, mounted)
		}
		for name, probe := range map[string]*corev1.Probe{"/livez": pod.Containers[0].LivenessProbe, "/readyz": pod.Containers[0].ReadinessProbe} {
			if get := probe.HTTPGet; get.Path != name || get.Scheme != corev1.URISchemeHTTPS || get.Port.String() != "api" {
				t.Errorf("the probe of %s calls %+v", name, get)
			}
		}
	})
}

// TestManifestsSpread: each replica has a node of its own, and zones fill evenly.
func TestManifestsSpread(t *testing.T) {
	eachRendering(t, func(t *testing.T, m *manifests) {
		got := m.set.Spec.Template.Spec.TopologySpreadConstraints
		if len(got) != 2 || got[0].TopologyKey != "kubernetes.io/hostname" || got[0].WhenUnsatisfiable != corev1.DoNotSchedule || got[0].MaxSkew != 1 ||
			got[0].MinDomains == nil || *got[0].MinDomains != *m.set.Spec.Replicas {
			t.Errorf("two replicas may share a node: %+v", got)
		}
		if len(got) != 2 || got[1].TopologyKey != "topology.kubernetes.io/zone" || got[1].WhenUnsatisfiable != corev1.ScheduleAnyway || got[1].MaxSkew != 1 {
			t.Errorf("zones do not count: %+v", got)
		}
	})
}

// TestManifestsAreHardened: the manifests have the measures of docs/security.md.
func TestManifestsAreHardened(t *testing.T) {
	eachRendering(t, func(t *testing.T, m *manifests) {
		pod := m.set.Spec.Template.Spec
		c := pod.Containers[0]
		user, may := pod.SecurityContext, c.SecurityContext
		checks := map[string]bool{
			"the image's user":         *user.RunAsNonRoot && *user.RunAsUser == imageUser && *user.RunAsGroup == imageUser && *user.FSGroup == imageUser,
			"seccomp":                  user.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
			"no more rights":           !*may.AllowPrivilegeEscalation && slices.Contains(may.Capabilities.Drop, "ALL"),
			"a read-only root":         *may.ReadOnlyRootFilesystem,
			"no token of the cluster":  !*pod.AutomountServiceAccountToken,
			"one container":            len(pod.Containers) == 1 && len(pod.InitContainers) == 0,
			"no throttling":            c.Resources.Limits.Cpu().IsZero(),
			"a bound on the memory":    !c.Resources.Limits.Memory().IsZero() && c.Resources.Limits.Memory().Equal(*c.Resources.Requests.Memory()),
			"an own key, and no other": mounts(c, "tls") == "ca.pem $(STOUTD_ID).pem $(STOUTD_ID)-key.pem",
		}
		if m.network != nil {
			in := m.network.Spec.Ingress
			checks["raft for replicas only"] = len(in) == 2 && len(in[1].From) == 1 && len(in[1].Ports) == 1 && in[1].Ports[0].Port.String() == "raft"
			checks["the API's port"] = len(in[0].Ports) == 1 && in[0].Ports[0].Port.String() == "api"
		}
		for _, v := range pod.Volumes { // the profile "restricted" permits these kinds
			switch {
			case v.Secret != nil:
				checks["a secret for this user only"] = *v.Secret.DefaultMode == 0o440
			case v.Projected != nil:
				checks["keys for this user only"] = *v.Projected.DefaultMode == 0o440
			case v.ConfigMap == nil:
				checks["no volume like "+v.Name] = false
			}
		}
		for what, ok := range checks {
			if !ok {
				t.Errorf("missing: %s", what)
			}
		}
	})
	if from := rendered(t, renderings["defaults"]).network.Spec.Ingress[0].From; len(from) != 0 {
		t.Errorf("by default the API is open to %+v, not to all", from)
	}
	if from := rendered(t, renderings["clients"]).network.Spec.Ingress[0].From; len(from) != 1 || from[0].NamespaceSelector.MatchLabels["team"] != "billing" {
		t.Errorf("the API is open to %+v", from)
	}
	if rendered(t, renderings["no policy"]).network != nil {
		t.Error("a policy that was turned off")
	}
}

// mounts returns the parts of a volume that a container has.
func mounts(c corev1.Container, volume string) string {
	var parts []string
	for _, m := range c.VolumeMounts {
		if m.Name == volume {
			parts = append(parts, m.SubPath+m.SubPathExpr)
		}
	}
	return strings.Join(parts, " ")
}

// TestManifestsCertificates: cert-manager makes what a replica needs. The others
// require the URI, and each end of a connection shows the certificate.
func TestManifestsCertificates(t *testing.T) {
	if m := rendered(t, renderings["defaults"]); len(m.certificates) > 0 || m.set.Spec.Template.Spec.Volumes[1].Secret.SecretName != "stout-tls" {
		t.Error("certificates that were not asked for")
	}
	m := rendered(t, renderings["cert-manager"])
	if len(m.certificates) != 5 {
		t.Fatalf("%d certificates", len(m.certificates))
	}
	files := map[string]string{}
	for _, s := range m.set.Spec.Template.Spec.Volumes[1].Projected.Sources {
		for _, i := range s.Secret.Items {
			if files[i.Path] != "" {
				t.Errorf("%s comes from two secrets", i.Path)
			}
			files[i.Path] = s.Secret.Name + " " + i.Key
		}
	}
	if files["ca.pem"] != "stout-0-tls ca.crt" || len(files) != 11 {
		t.Errorf("files %q", files)
	}
	for i, id := range m.ids() {
		c := m.certificates[i]
		if c.Name != id || !slices.Equal(c.Spec.URIs, []string{"stout://replica/" + id}) {
			t.Errorf("%s is %q", c.Name, c.Spec.URIs)
		}
		if want := []string{id + ".stout.stout.svc", "stout.stout.svc", "stout-client.stout.svc", "stout.example.com"}; !slices.Equal(c.Spec.DNSNames, want) {
			t.Errorf("%s has names %q, want %q", id, c.Spec.DNSNames, want)
		}
		if want := []string{"digital signature", "server auth", "client auth"}; !slices.Equal(c.Spec.Usages, want) {
			t.Errorf("%s is for %q", id, c.Spec.Usages)
		}
		if c.Spec.IssuerRef.Name != "ca" || c.Spec.IssuerRef.Kind != "Issuer" {
			t.Errorf("%s: %+v", id, c.Spec.IssuerRef)
		}
		if files[id+".pem"] != c.Spec.SecretName+" tls.crt" || files[id+"-key.pem"] != c.Spec.SecretName+" tls.key" {
			t.Errorf("%s is not in %q", c.Spec.SecretName, files)
		}
	}
}

// TestManifestsMonitor: Prometheus finds each replica, and verifies its certificate by a
// name that all of them have.
func TestManifestsMonitor(t *testing.T) {
	if rendered(t, renderings["defaults"]).monitor != nil {
		t.Error("a monitor that was not asked for")
	}
	for values, want := range map[string]struct{ secret, key string }{
		renderings["monitor"]: {"stout-tls", "ca.pem"},
		"{serviceMonitor: {enabled: true, token: {name: prom, key: token}}, tls: {certManager: {enabled: true, issuerRef: {name: ca}}}}": {"stout-0-tls", "ca.crt"},
	} {
		m := rendered(t, values)
		for k, v := range m.monitor.Spec.Selector.MatchLabels {
			if m.replicas.Labels[k] != v {
				t.Errorf("the monitor selects %s=%s, which the service does not have", k, v)
			}
		}
		selects, err := metav1.LabelSelectorAsSelector(&m.monitor.Spec.Selector)
		if err != nil || selects.Matches(labelsOf(m.clients.Labels)) {
			t.Errorf("each replica has two targets: %v, %v", selects, err)
		}
		e := m.monitor.Spec.Endpoints[0]
		if e.Port != m.replicas.Spec.Ports[0].Name || e.Scheme != "https" || e.Path != "/metrics" || e.TLSConfig.ServerName != "stout-client.stout.svc" {
			t.Errorf("%+v", e)
		}
		if r := e.Relabelings; len(r) != 1 || r[0].TargetLabel != "job" || r[0].Replacement != "stout-stout-stout" {
			t.Errorf("the alerts do not find the cell's job: %+v", r)
		}
		if ca := e.TLSConfig.CA.Secret; ca.Name != want.secret || ca.Key != want.key {
			t.Errorf("the CA is %+v", ca)
		}
		if e.Authorization == nil || e.Authorization.Credentials.Name != "prom" || e.Authorization.Credentials.Key != "token" {
			t.Errorf("the token is %+v", e.Authorization)
		}
	}
}

type labelsOf map[string]string

func (l labelsOf) Has(k string) bool              { _, ok := l[k]; return ok }
func (l labelsOf) Get(k string) string            { return l[k] }
func (l labelsOf) Lookup(k string) (string, bool) { v, ok := l[k]; return v, ok }

// podSettings returns the settings with which a pod runs stoutd, as stoutd prints them.
func podSettings(t *testing.T, m *manifests, id string) map[string]any {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stoutd.yaml")
	must(t, os.WriteFile(file, []byte(m.config.Data["stoutd.yaml"]), 0o600))
	cmd := exec.CommandContext(t.Context(), hostBuild(t).program(t, "stoutd"), "--config", file, "config", "-o", "yaml")
	cmd.Env = podEnv(m, id)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", id, err, m.config.Data["stoutd.yaml"])
	}
	var settings map[string]any
	must(t, yaml.Unmarshal(out, &settings))
	return settings
}

// podEnv returns the environment of a pod's container.
func podEnv(m *manifests, id string) (env []string) {
	for _, e := range m.set.Spec.Template.Spec.Containers[0].Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			e.Value = id
		}
		env = append(env, e.Name+"="+e.Value)
	}
	return env
}

// TestManifestsSettings: stoutd accepts the settings of each pod, and they turn on the
// measures of docs/security.md.
func TestManifestsSettings(t *testing.T) {
	eachRendering(t, func(t *testing.T, m *manifests) {
		var replicas []any
		for _, id := range m.ids() {
			host := id + "." + m.replicas.Name + "." + m.replicas.Namespace + ".svc"
			replicas = append(replicas, map[string]any{"id": id, "raft": host + ":7201", "api": "https://" + host + ":7101"})
		}
		want := map[string]any{"api-cert": "/etc/stout/tls/cert.pem", "raft-cert": "/etc/stout/tls/cert.pem", "raft-key": "/etc/stout/tls/key.pem",
			"raft-ca": "/etc/stout/tls/ca.pem", "api-client-ca": "/etc/stout/tls/ca.pem", "audit-log": "-", "replicas": replicas}
		for _, v := range m.set.Spec.Template.Spec.Volumes {
			if v.Name == "founding" {
				want["found-token-file"] = "/etc/stout/founding/root.token"
				if s := v.Secret; s.Optional == nil || !*s.Optional {
					t.Error("no pod starts after the founding secret was deleted")
				}
			}
		}
		for _, id := range m.ids() {
			got := podSettings(t, m, id)
			want["id"] = id
			for name, value := range want {
				if fmt.Sprint(got[name]) != fmt.Sprint(value) {
					t.Errorf("%s: %s is %v, want %v", id, name, got[name], value)
				}
			}
			if _, ok := want["found-token-file"]; !ok && got["found-token-file"] != nil {
				t.Errorf("%s has found-token-file %v", id, got["found-token-file"])
			}
		}
	})
	id := "stout-2"
	for rendering, want := range map[string]string{
		"defaults": "backup-every=0s backup-dir=<nil> max-files=200000 public-metrics=false clock-drift=0.01 max-holds=500000",
		"settings": "backup-every=0s backup-dir=<nil> max-files=1000 public-metrics=false clock-drift=0.001 max-holds=5e+06",
		"backups":  "backup-every=2h0m0s backup-dir=/var/backups/stout max-files=200000 public-metrics=false clock-drift=0.01 max-holds=500000",
	} {
		got, shown := podSettings(t, rendered(t, renderings[rendering]), id), []string{}
		for _, name := range []string{"backup-every", "backup-dir", "max-files", "public-metrics", "clock-drift", "max-holds"} {
			shown = append(shown, fmt.Sprintf("%s=%v", name, got[name]))
		}
		if all := strings.Join(shown, " "); all != want {
			t.Errorf("%s: %s; want %s", rendering, all, want)
		}
	}
}

// TestManifestsStop: pods have more time to stop than stoutd takes, which is
// shutdown-timeout, two seconds, and one for the log.
func TestManifestsStop(t *testing.T) {
	for rendering, want := range map[string]int64{"defaults": 20, "slow stop": 102} {
		m := rendered(t, renderings[rendering])
		if got := *m.set.Spec.Template.Spec.TerminationGracePeriodSeconds; got != want {
			t.Errorf("%s: pods have %d s to stop, want %d", rendering, got, want)
		}
		bound, err := time.ParseDuration(fmt.Sprint(podSettings(t, m, "stout-0")["shutdown-timeout"]))
		if err != nil || bound+3*time.Second >= time.Duration(want)*time.Second {
			t.Errorf("%s: stoutd takes %v, %v", rendering, bound, err)
		}
	}
	if _, err := render("settings: {shutdown-timeout: 30}"); err == nil {
		t.Error("a duration without a unit is accepted")
	}
}

// TestManifestsCollector: stoutd verifies a collector by CAs that are mounted.
func TestManifestsCollector(t *testing.T) {
	m := rendered(t, renderings["collector"])
	volumes, c := m.set.Spec.Template.Spec.Volumes, m.set.Spec.Template.Spec.Containers[0]
	if v := volumes[len(volumes)-1]; v.ConfigMap == nil || v.ConfigMap.Name != "roots" {
		t.Errorf("the volume is %+v", v)
	}
	if v := c.VolumeMounts[len(c.VolumeMounts)-1]; v.Name != "roots" || v.MountPath != "/etc/roots" || !v.ReadOnly {
		t.Errorf("the mount is %+v", v)
	}
	if env := podEnv(m, "stout-0"); !slices.Contains(env, "OTEL_EXPORTER_OTLP_CERTIFICATE=/etc/roots/ca.pem") || !slices.Contains(env, "STOUTD_ID=stout-0") {
		t.Errorf("the environment is %q", env)
	}
}

// TestManifestsBackups: backups have a volume of their own, which the setting names.
func TestManifestsBackups(t *testing.T) {
	m := rendered(t, renderings["backups"])
	claims := m.set.Spec.VolumeClaimTemplates
	if len(claims) != 2 || claims[1].Name != "backups" || *claims[1].Spec.StorageClassName != "other" || claims[0].Spec.StorageClassName != nil {
		t.Errorf("%+v", claims)
	}
	dir := fmt.Sprint(podSettings(t, m, "stout-0")["backup-dir"])
	if !slices.ContainsFunc(m.set.Spec.Template.Spec.Containers[0].VolumeMounts, func(v corev1.VolumeMount) bool {
		return v.Name == "backups" && strings.HasPrefix(dir, v.MountPath+"/") && !v.ReadOnly
	}) {
		t.Errorf("backup-dir %s is not on the volume", dir)
	}
}

// TestManifestsMemory: the memory that the quotas permit fits into the limit, by the
// figures of docs/sizing.md, and the collector works before the limit is reached.
func TestManifestsMemory(t *testing.T) {
	const (
		perCall     = 45 << 10  // for each waiting call, its connection included
		slowClients = 128 << 20 // partly received requests, and unread replies
		leastRoom   = 64 << 20  // for garbage; a third of live memory if that is more
	)
	eachRendering(t, func(t *testing.T, m *manifests) {
		s := podSettings(t, m, "stout-0")
		quota := func(name string) int64 {
			n := sizeOf(t, s[name])
			if n == 0 {
				t.Errorf("%s has no bound", name)
			}
			return n
		}
		calls := max(quota("max-connections"), quota("max-sessions")+quota("max-waiters")+quota("max-watchers"))
		state := quota("max-bytes")
		live := state + quota("event-history-bytes") + calls*perCall + slowClients
		bound := live + max(live/3, leastRoom)
		limit := m.set.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
		if bound > limit {
			t.Errorf("the quotas permit %d MiB, the limit is %d MiB", bound>>20, limit>>20)
		}
		if bound < limit*9/10 {
			t.Errorf("the quotas permit %d MiB, and waste the rest of %d MiB", bound>>20, limit>>20)
		}
		if content := quota("max-content"); content > state {
			t.Errorf("max-content %d is above max-bytes %d", content, state)
		}
		for _, e := range podEnv(m, "stout-0") {
			if text, ok := strings.CutPrefix(e, "GOMEMLIMIT="); ok {
				if soft := sizeOf(t, text); soft >= limit || soft < live {
					t.Errorf("GOMEMLIMIT %d; live memory takes up to %d, the limit is %d", soft, live, limit)
				}
				return
			}
		}
		t.Error("no GOMEMLIMIT")
	})
}

// sizeOf returns a number, or a size like 512MiB in bytes.
func sizeOf(t *testing.T, v any) int64 {
	t.Helper()
	q, err := resource.ParseQuantity(cmp.Or(strings.TrimSuffix(fmt.Sprint(v), "B"), "none"))
	if err != nil {
		t.Fatalf("%v: %v", v, err)
	}
	return q.Value()
}

// TestManifestsNotes: the notes show the next commands.
func TestManifestsNotes(t *testing.T) {
	for rendering, want := range map[string][]string{
		"defaults":     {"rollout status statefulset/stout", "--set founding.secretName=\n", "delete secret stout-founding", "STOUT_SERVER=https://stout-client.stout.svc:7101"},
		"founded":      {"access off", "stout status --check"},
		"cert-manager": {"rollout restart statefulset/stout", "ca.crt of the secret stout-0-tls"},
		"repair":       {"--set upgradeUnready=false"},
	} {
		notes := rendered(t, renderings[rendering]).notes
		for _, w := range want {
			if !strings.Contains(notes, w) {
				t.Errorf("%s: no %q in\n%s", rendering, w, notes)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(renderings)) {
		if notes := rendered(t, renderings[name]).notes; strings.Contains(notes, "<no value>") || strings.Contains(notes, "upgradeUnready") != (name == "repair") {
			t.Errorf("%s:\n%s", name, notes)
		}
	}
}
