package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// manifests has the objects of configs/kubernetes.
type manifests struct {
	namespace corev1.Namespace
	config    corev1.ConfigMap
	service   corev1.Service
	budget    policyv1.PodDisruptionBudget
	network   networkingv1.NetworkPolicy
	set       appsv1.StatefulSet
}

// readManifests decodes each object as its kind. A field that the type lacks is an
// error.
func readManifests(t *testing.T) *manifests {
	t.Helper()
	all, err := os.ReadFile("../../configs/kubernetes/stout.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := &manifests{}
	kinds := map[string]any{
		"v1 Namespace": &m.namespace, "v1 ConfigMap": &m.config, "v1 Service": &m.service,
		"policy/v1 PodDisruptionBudget": &m.budget, "networking.k8s.io/v1 NetworkPolicy": &m.network, "apps/v1 StatefulSet": &m.set,
	}
	for _, doc := range bytes.Split(all, []byte("\n---\n")) {
		var is metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &is); err != nil {
			t.Fatal(err)
		}
		kind := is.APIVersion + " " + is.Kind
		object := kinds[kind]
		if object == nil {
			t.Fatalf("an object of kind %q, or a second one", kind)
		}
		delete(kinds, kind)
		if err := yaml.UnmarshalStrict(doc, object); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	for kind := range kinds {
		t.Errorf("there is no %s", kind)
	}
	return m
}

// TestManifestsFitTogether: references between objects have a target.
func TestManifestsFitTogether(t *testing.T) {
	m := readManifests(t)
	labels := m.set.Spec.Template.Labels
	for name, selector := range map[string]map[string]string{
		"the set": m.set.Spec.Selector.MatchLabels, "the service": m.service.Spec.Selector,
		"the budget": m.budget.Spec.Selector.MatchLabels, "the policy": m.network.Spec.PodSelector.MatchLabels,
	} {
		for k, v := range selector {
			if labels[k] != v {
				t.Errorf("%s selects %s=%s, which the pods do not have", name, k, v)
			}
		}
		if len(selector) == 0 {
			t.Errorf("%s selects everything", name)
		}
	}
	for kind, of := range map[string]metav1.ObjectMeta{"config": m.config.ObjectMeta, "service": m.service.ObjectMeta,
		"budget": m.budget.ObjectMeta, "policy": m.network.ObjectMeta, "set": m.set.ObjectMeta} {
		if of.Namespace != m.namespace.Name {
			t.Errorf("the %s is in namespace %q", kind, of.Namespace)
		}
	}
	if m.set.Spec.ServiceName != m.service.Name || m.service.Spec.ClusterIP != corev1.ClusterIPNone || !m.service.Spec.PublishNotReadyAddresses {
		t.Error("the replicas do not find each other before they are ready")
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
	volumes := []string{m.set.Spec.VolumeClaimTemplates[0].Name}
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, v := range pod.Containers[0].VolumeMounts {
		if !slices.Contains(volumes, v.Name) {
			t.Errorf("volume %q does not exist", v.Name)
		}
	}
	for name, probe := range map[string]*corev1.Probe{"/livez": pod.Containers[0].LivenessProbe, "/readyz": pod.Containers[0].ReadinessProbe} {
		if get := probe.HTTPGet; get.Path != name || get.Scheme != corev1.URISchemeHTTPS || get.Port.String() != "api" {
			t.Errorf("the probe of %s calls %+v", name, get)
		}
	}
}

// TestManifestsAreHardened: the manifests have the measures of docs/security.md.
func TestManifestsAreHardened(t *testing.T) {
	m := readManifests(t)
	pod := m.set.Spec.Template.Spec
	c := pod.Containers[0]
	user, may := pod.SecurityContext, c.SecurityContext
	for what, ok := range map[string]bool{
		"the image's user":         *user.RunAsNonRoot && *user.RunAsUser == imageUser && *user.RunAsGroup == imageUser && *user.FSGroup == imageUser,
		"seccomp":                  user.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"no more rights":           !*may.AllowPrivilegeEscalation && slices.Contains(may.Capabilities.Drop, "ALL"),
		"a read-only root":         *may.ReadOnlyRootFilesystem,
		"no token of the cluster":  !*pod.AutomountServiceAccountToken,
		"restricted pods":          m.namespace.Labels["pod-security.kubernetes.io/enforce"] == "restricted",
		"no throttling":            c.Resources.Limits.Cpu().IsZero(),
		"a bound on the memory":    !c.Resources.Limits.Memory().IsZero(),
		"the time to stop":         *pod.TerminationGracePeriodSeconds > 12,
		"raft for replicas only":   len(m.network.Spec.Ingress[1].From) == 1 && m.network.Spec.Ingress[1].Ports[0].Port.String() == "raft",
		"the API for all":          len(m.network.Spec.Ingress[0].Ports) == 1 && m.network.Spec.Ingress[0].Ports[0].Port.String() == "api",
		"secrets for nobody else":  *pod.Volumes[1].Secret.DefaultMode == 0o440,
		"an own key, and no other": mounts(c, "tls") == "ca.pem $(STOUTD_ID).pem $(STOUTD_ID)-key.pem",
	} {
		if !ok {
			t.Errorf("missing: %s", what)
		}
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

// TestManifestsSettings: stoutd accepts the settings of each pod, and they turn on the
// measures of docs/security.md.
func TestManifestsSettings(t *testing.T) {
	m := readManifests(t)
	b := hostBuild(t)
	for i := range int(*m.set.Spec.Replicas) {
		id := m.set.Name + "-" + string(rune('0'+i))
		file := filepath.Join(t.TempDir(), "stoutd.yaml")
		if err := os.WriteFile(file, []byte(m.config.Data["stoutd.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(b.program(t, "stoutd"), "--config", file, "config", "-o", "yaml")
		for _, e := range m.set.Spec.Template.Spec.Containers[0].Env {
			if e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.name" {
				e.Value = id
			}
			cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", id, err, out)
		}
		for _, want := range []string{"id: " + id, "api-cert: /etc/stout/tls/cert.pem", "raft-ca: /etc/stout/tls/ca.pem", "found-token-file: /etc/stout/founding/root.token", `audit-log: "-"`,
			"api: https://" + id + "." + m.service.Name + "." + m.namespace.Name + ".svc:7101"} {
			if !strings.Contains(strings.ReplaceAll(string(out), "'", `"`), want) {
				t.Errorf("%s has no %q in\n%s", id, want, out)
			}
		}
	}
}
