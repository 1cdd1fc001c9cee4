package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// cluster plays the parts of Kubernetes that the chart needs, with a process for each
// pod. Addresses on loopback replace the pods' names.
type cluster struct {
	*manifests
	built   *built
	dir     string
	secrets map[string]string // names of the secrets, and directories with their files
	addrs   map[string]string // names with ports, and addresses
	pods    map[string]*pod
}

type pod struct {
	cmd   *exec.Cmd
	log   bytes.Buffer // to be read after ended
	err   error
	ended chan struct{}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newCluster(t *testing.T, m *manifests) *cluster {
	t.Helper()
	c := &cluster{manifests: m, built: hostBuild(t), dir: t.TempDir(), secrets: map[string]string{}, addrs: map[string]string{}, pods: map[string]*pod{}}
	token := []byte("stout_" + strings.Repeat("5c", 32) + "\n")
	c.secret(t, "stout-founding", map[string][]byte{"root.token": token})
	c.secret(t, "operator", map[string][]byte{"root.token": token})
	c.secrets["stout-tls"] = filepath.Join(c.dir, "stout-tls")
	c.admit(t, m.ids()...)
	if len(m.certificates) > 0 {
		c.certManager(t)
	} else {
		c.newCerts(t, m.ids()...)
	}
	t.Cleanup(func() {
		for id, p := range c.pods {
			_ = p.cmd.Process.Kill()
			<-p.ended
			if t.Failed() {
				t.Logf("%s:\n%s", id, &p.log)
			}
		}
	})
	return c
}

// admit gives pods their addresses.
func (c *cluster) admit(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		for _, port := range []string{":7101", ":7201"} {
			c.addrs[id+".stout.stout.svc"+port] = freeAddr(t)
		}
	}
}

// newCerts makes certificates as docs/operations.md does.
func (c *cluster) newCerts(t *testing.T, ids ...string) {
	t.Helper()
	args := []string{"certs", "new", "--dir", c.secrets["stout-tls"]}
	for _, id := range ids {
		args = append(args, "--replica", id+"="+id+".stout.stout.svc,stout-client.stout.svc,localhost")
	}
	c.stout(t, args...)
}

// secret makes a secret.
func (c *cluster) secret(t *testing.T, name string, files map[string][]byte) {
	t.Helper()
	dir := filepath.Join(c.dir, name)
	c.secrets[name] = dir
	must(t, os.Mkdir(dir, 0o700))
	for file, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, file), content, 0o600))
	}
}

// certManager makes the secrets of all certificates, with no more than they ask for.
func (c *cluster) certManager(t *testing.T) {
	t.Helper()
	uses := map[string]x509.ExtKeyUsage{"server auth": x509.ExtKeyUsageServerAuth, "client auth": x509.ExtKeyUsageClientAuth}
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature}
	}
	sign := func(leaf, issuer *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		if by == nil {
			by = key
		}
		der, err := x509.CreateCertificate(rand.Reader, leaf, issuer, key.Public(), by)
		must(t, err)
		return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	ca := template("ca")
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign
	caKey, caPEM := sign(ca, ca, nil)
	for _, want := range c.certificates {
		leaf := template(want.Spec.CommonName)
		leaf.DNSNames = want.Spec.DNSNames
		for _, text := range want.Spec.URIs {
			uri, err := url.Parse(text)
			must(t, err)
			leaf.URIs = append(leaf.URIs, uri)
		}
		for _, use := range want.Spec.Usages {
			if ext, ok := uses[use]; ok {
				leaf.ExtKeyUsage = append(leaf.ExtKeyUsage, ext)
			}
		}
		key, cert := sign(leaf, ca, caKey)
		der, err := x509.MarshalPKCS8PrivateKey(key)
		must(t, err)
		c.secret(t, want.Spec.SecretName, map[string][]byte{"ca.crt": caPEM, "tls.crt": cert, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})})
	}
}

// ca returns the file with the CA of the cell, as clients have it.
func (c *cluster) ca() string {
	if len(c.certificates) > 0 {
		return filepath.Join(c.secrets["stout-0-tls"], "ca.crt")
	}
	return filepath.Join(c.secrets["stout-tls"], "ca.pem")
}

// get calls the API of a pod as a host with this name, without a credential.
func (c *cluster) get(t *testing.T, id, host, path string) (status int, body string, err error) {
	t.Helper()
	ca, err := os.ReadFile(c.ca())
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	via := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host}, DisableKeepAlives: true}}
	resp, err := via.Get("https://" + c.addrs[id+".stout.stout.svc:7101"] + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}

// url returns the URL of a pod's API on this machine.
func (c *cluster) url(id string) string {
	_, port, _ := strings.Cut(c.addrs[id+".stout.stout.svc:7101"], ":")
	return "https://localhost:" + port
}

// stout runs a command of the operator and returns its output.
func (c *cluster) stout(t *testing.T, args ...string) string {
	t.Helper()
	var servers []string
	for _, id := range c.ids() {
		servers = append(servers, c.url(id))
	}
	cmd := exec.CommandContext(t.Context(), c.built.program(t, "stout"), args...)
	cmd.Env = []string{"STOUT_SERVER=" + strings.Join(servers, ","), "STOUT_CA_CERT=" + c.ca(), "STOUT_AUTH_TOKEN_FILE=" + filepath.Join(c.secrets["operator"], "root.token")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("stout %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// start starts a pod on its volume. It has the files that the set mounts, and no others.
func (c *cluster) start(t *testing.T, id string) {
	t.Helper()
	root := filepath.Join(c.dir, id)
	etc := filepath.Join(root, "etc/stout")
	must(t, os.RemoveAll(etc))
	for _, dir := range []string{filepath.Join(etc, "tls"), filepath.Join(root, "var/lib/stoutd")} {
		must(t, os.MkdirAll(dir, 0o700))
	}
	template := c.set.Spec.Template.Spec
	for _, v := range template.Volumes {
		files := c.volume(t, v)
		for _, mount := range template.Containers[0].VolumeMounts {
			if v.Name != mount.Name || v.ConfigMap != nil {
				continue
			}
			to, part := filepath.Join(root, mount.MountPath), mount.SubPath+strings.ReplaceAll(mount.SubPathExpr, "$(STOUTD_ID)", id)
			if part == "" {
				must(t, os.Mkdir(to, 0o700))
			}
			for name, content := range files {
				at := to
				if part == "" {
					at = filepath.Join(to, name)
				} else if name != part {
					continue
				}
				must(t, os.WriteFile(at, content, 0o600))
			}
		}
	}
	host := id + ".stout.stout.svc"
	here := []string{"/etc/stout/", etc + "/", "/var/lib/stoutd", filepath.Join(root, "var/lib/stoutd"),
		"0.0.0.0:7101", c.addrs[host+":7101"], "0.0.0.0:7201", c.addrs[host+":7201"]}
	for _, other := range c.ids() {
		name := other + ".stout.stout.svc"
		here = append(here, "https://"+name+":7101", c.url(other), name+":7201", c.addrs[name+":7201"])
	}
	file := filepath.Join(etc, "stoutd.yaml")
	must(t, os.WriteFile(file, []byte(strings.NewReplacer(here...).Replace(c.config.Data["stoutd.yaml"])), 0o600))
	p := &pod{cmd: exec.Command(c.built.program(t, "stoutd"), "--config", file), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = podEnv(c.manifests, id), &p.log, &p.log
	must(t, p.cmd.Start())
	c.pods[id] = p
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
}

// volume returns the files of a secret volume. A missing secret must be optional.
func (c *cluster) volume(t *testing.T, v corev1.Volume) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	add := func(secret string, optional *bool, items []corev1.KeyToPath) {
		dir := c.secrets[secret]
		if dir == "" && (optional == nil || !*optional) {
			t.Fatalf("there is no secret %q", secret)
		}
		keys, _ := os.ReadDir(dir)
		for _, key := range keys {
			content, err := os.ReadFile(filepath.Join(dir, key.Name()))
			must(t, err)
			if items == nil {
				files[key.Name()] = content
			}
			for _, i := range items {
				if i.Key == key.Name() {
					files[i.Path] = content
				}
			}
		}
	}
	if v.Secret != nil {
		add(v.Secret.SecretName, v.Secret.Optional, v.Secret.Items)
	}
	if v.Projected != nil {
		for _, s := range v.Projected.Sources {
			add(s.Secret.Name, s.Secret.Optional, s.Secret.Items)
		}
	}
	return files
}

// end sends a signal to a pod and waits for its end. It returns the pod's log.
func (c *cluster) end(t *testing.T, id string, by syscall.Signal) string {
	t.Helper()
	p := c.pods[id]
	delete(c.pods, id)
	must(t, p.cmd.Process.Signal(by))
	if <-p.ended; p.err != nil && by == syscall.SIGTERM {
		t.Errorf("%s: %v\n%s", id, p.err, &p.log)
	}
	return p.log.String()
}

// probe waits until /readyz of a pod has a status, and its body a text. It returns the
// body.
func (c *cluster) probe(t *testing.T, id string, status int, text string) string {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		got, body, err := c.get(t, id, "localhost", "/readyz")
		if err == nil && got == status && strings.Contains(body, text) {
			return body
		}
		select {
		case <-c.pods[id].ended:
			t.Fatalf("%s ended: %v", id, c.pods[id].err)
		case <-t.Context().Done():
		case <-tick.C:
		}
		if deadline, ok := t.Deadline(); ok && time.Until(deadline) < time.Minute {
			t.Fatalf("%s: %d %s, %v; want %d %s", id, got, body, err, status, text)
		}
	}
}

func (c *cluster) ready(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		c.probe(t, id, http.StatusOK, "")
	}
}

// TestChartRunsACell: the pods of the chart found a cell with access on. They start
// again without the founding secret. The cell survives an upgrade, the loss of a node
// and the loss of a volume, and grows to five replicas.
func TestChartRunsACell(t *testing.T) {
	c := newCluster(t, rendered(t, renderings["defaults"]))
	ids := c.ids()
	for _, id := range ids {
		c.start(t, id)
	}
	c.ready(t, ids...)
	if status, body, err := c.get(t, ids[0], "localhost", "/v1/cell"); err != nil || status != http.StatusUnauthorized {
		t.Errorf("without a credential: %d %s, %v", status, body, err)
	}
	c.stout(t, "put", "/app/conf", "first")

	// The founding secret is deleted, and a pod restarts.
	delete(c.secrets, "stout-founding")
	c.end(t, ids[0], syscall.SIGTERM)
	c.start(t, ids[0])
	c.ready(t, ids[0])

	// helm upgrade --set founding.secretName=
	c.manifests = rendered(t, renderings["founded"])
	for _, id := range slices.Backward(ids) {
		if log := c.end(t, id, syscall.SIGTERM); strings.Contains(log, "found-token-file is missing") != (id == ids[0]) {
			t.Errorf("%s reports a missing file, or does not:\n%s", id, log)
		}
		c.start(t, id)
		c.ready(t, ids...)
	}

	// A node is lost; its volume moves.
	c.end(t, ids[2], syscall.SIGKILL)
	c.stout(t, "put", "/app/conf", "second", "--timeout", "1m")
	c.start(t, ids[2])
	c.ready(t, ids...)

	// A volume is lost.
	c.end(t, ids[1], syscall.SIGKILL)
	must(t, os.RemoveAll(filepath.Join(c.dir, ids[1], "var")))
	c.start(t, ids[1])
	body := c.probe(t, ids[1], http.StatusServiceUnavailable, "stout member replace stout-1 --directory ")
	command := strings.Fields(regexp.MustCompile("stout member replace [^`\"]*").FindString(body))
	c.stout(t, append(command[1:], "--yes")...)
	c.ready(t, ids...)
	if got := c.stout(t, "get", "/app/conf", "--raw"); !strings.Contains(got, "second") {
		t.Errorf("the file has %q", got)
	}
	// helm upgrade --set replicas=5
	c.manifests = rendered(t, "{replicas: 5, founding: {secretName: ''}}")
	added := c.ids()[3:]
	c.admit(t, added...)
	c.newCerts(t, added...)
	for _, id := range added {
		c.start(t, id)
	}
	for _, id := range added {
		body := c.probe(t, id, http.StatusServiceUnavailable, "stout member add "+id)
		command := strings.Fields(regexp.MustCompile("stout member add [^`\"]*").FindString(body))
		c.stout(t, command[1:]...)
		c.ready(t, id)
	}
	for _, id := range slices.Backward(ids) {
		c.end(t, id, syscall.SIGTERM)
		c.start(t, id)
		c.ready(t, c.ids()...)
	}

	// Two of five may fail.
	c.end(t, ids[0], syscall.SIGKILL)
	c.end(t, ids[2], syscall.SIGKILL)
	c.stout(t, "put", "/app/conf", "third", "--timeout", "1m")
}

// TestChartRunsOnCertManager: the certificates that the chart asks for suffice: for the
// replicas to each other, for clients, and for Prometheus.
func TestChartRunsOnCertManager(t *testing.T) {
	c := newCluster(t, rendered(t, `{tls: {secretName: "", certManager: {enabled: true, issuerRef: {name: ca}}}, serviceMonitor: {enabled: true}}`))
	for _, id := range c.ids() {
		c.start(t, id)
	}
	c.ready(t, c.ids()...)
	c.stout(t, "put", "/app/conf", "first")
	for _, id := range c.ids() {
		for _, host := range []string{id + ".stout.stout.svc", "stout-client.stout.svc", c.monitor.Spec.Endpoints[0].TLSConfig.ServerName} {
			if status, _, err := c.get(t, id, host, "/livez"); err != nil || status != http.StatusOK {
				t.Errorf("%s as %s: %d, %v", id, host, status, err)
			}
		}
	}
}
