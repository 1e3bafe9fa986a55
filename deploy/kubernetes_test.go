package deploy

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// manifests are those in deploy/kubernetes.
type manifests struct {
	settings   core.ConfigMap
	deployment apps.Deployment
	service    core.Service
	budget     policy.PodDisruptionBudget
	job        batch.Job
}

// kubernetes reads all manifests as the types of Kubernetes itself. A field that there is not is an
// error.
func kubernetes(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{}
	missing := map[string]any{"v1 ConfigMap": &m.settings, "apps/v1 Deployment": &m.deployment,
		"v1 Service": &m.service, "policy/v1 PodDisruptionBudget": &m.budget, "batch/v1 Job": &m.job}
	for _, file := range []string{"kubernetes/serve.yaml", "kubernetes/batch.yaml"} {
		for _, text := range bytes.Split(content(t, file), []byte("\n---\n")) {
			var of struct{ APIVersion, Kind string }
			limittest.Must(t, yaml.Unmarshal(text, &of))
			kind := of.APIVersion + " " + of.Kind
			into, known := missing[kind]
			if !known {
				t.Fatalf("%s: there is another %s, or it is not known here", file, kind)
			}
			data, err := yaml.YAMLToJSONStrict(text)
			limittest.Must(t, err)
			if strict, err := json.UnmarshalStrict(data, into); err != nil || len(strict) > 0 {
				t.Fatalf("%s, %s: %v %v", file, kind, err, strict)
			}
			delete(missing, kind)
		}
	}
	if len(missing) > 0 {
		t.Fatalf("there is none of %v", missing)
	}
	return m
}

// What the manifests say of each other is so.
func TestManifestsAgree(t *testing.T) {
	m := kubernetes(t)
	pod := &m.deployment.Spec.Template
	for what, selector := range map[string]map[string]string{
		"Deployment": m.deployment.Spec.Selector.MatchLabels, "Service": m.service.Spec.Selector,
		"PodDisruptionBudget": m.budget.Spec.Selector.MatchLabels,
		"spread":              pod.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
	} {
		if len(selector) != 1 || selector["app"] != pod.Labels["app"] {
			t.Errorf("the selector of the %s finds no pod: %v", what, selector)
		}
	}
	serve := &pod.Spec.Containers[0]
	for what, port := range map[string]string{
		"liveness": serve.LivenessProbe.HTTPGet.Port.StrVal, "readiness": serve.ReadinessProbe.HTTPGet.Port.StrVal,
		"Service": m.service.Spec.Ports[0].TargetPort.StrVal,
	} {
		if port != serve.Ports[0].Name {
			t.Errorf("%s asks at port %q", what, port)
		}
	}
	if volume := pod.Spec.Volumes[0]; volume.ConfigMap.Name != m.settings.Name ||
		serve.VolumeMounts[0].Name != volume.Name || !serve.VolumeMounts[0].ReadOnly {
		t.Error("the settings are not mounted")
	}
	calls := 10 * time.Second // the default of --grace, which TestTheUnitWaitsAndHandsSecretsOver reads
	calls += time.Duration(serve.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if most := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second; most <= calls {
		t.Errorf("pods are killed after %s, and calls may take %s", most, calls)
	}
}

// Pods run as the image's user, can change nothing, and have no secret in a manifest.
func TestPodsHaveFewRights(t *testing.T) {
	m := kubernetes(t)
	for name, spec := range map[string]*core.PodSpec{"serve": &m.deployment.Spec.Template.Spec,
		"batch": &m.job.Spec.Template.Spec} {
		c := &spec.Containers[0]
		all, own := spec.SecurityContext, c.SecurityContext
		if !*all.RunAsNonRoot || *all.RunAsUser == 0 ||
			all.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault ||
			*spec.AutomountServiceAccountToken || *own.AllowPrivilegeEscalation || !*own.ReadOnlyRootFilesystem ||
			len(own.Capabilities.Drop) != 1 || own.Capabilities.Drop[0] != "ALL" {
			t.Errorf("%s: %+v %+v", name, all, own)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() ||
			c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: %v", name, c.Resources)
		}
		for _, env := range c.Env {
			if env.Value != "" || env.ValueFrom.SecretKeyRef.Name != "shardlimit" {
				t.Errorf("%s: %s is not of the Secret", name, env.Name)
			}
		}
	}
}

// The tool takes the arguments, variables and settings of the manifests: serve starts with them and
// answers its probes, and run gets a permit of what serve declares and becomes the command.
func TestTheToolStartsAsManifestsSay(t *testing.T) {
	t.Parallel()
	m, dir := kubernetes(t), t.TempDir()
	servers, err := embedded.Start(2)
	limittest.Must(t, err)
	defer servers.Close()
	secrets := map[string]string{"redis": "a=" + servers.Addr(0) + ",b=" + servers.Addr(1), "token": "0123456789abcdef"}
	env := func(c *core.Container) (all []string) {
		for _, v := range c.Env {
			all = append(all, v.Name+"="+secrets[v.ValueFrom.SecretKeyRef.Key])
		}
		return append(all, "PATH="+dir+":"+os.Getenv("PATH"))
	}
	serve := &m.deployment.Spec.Template.Spec.Containers[0]
	for name, text := range m.settings.Data {
		limittest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if port := m.service.Spec.Ports[0].Port; port != serve.Ports[0].ContainerPort ||
		!strings.Contains(m.settings.Data["serve.yaml"], "listen: 0.0.0.0:8080\n") || port != 8080 {
		t.Errorf("serve does not listen at port %d", port)
	}
	mounted := serve.VolumeMounts[0].MountPath + "/"
	args := strings.Split(strings.ReplaceAll(strings.Join(serve.Args, "\n"), mounted, dir+"/"), "\n")
	cmd := exec.Command(tool, append(args, "--listen", "127.0.0.1:0", "--call-timeout", "5s")...)
	cmd.Env = env(serve)
	address, _ := started(t, cmd, "limits declared: 2; serving HTTP on ")
	for _, path := range []string{serve.LivenessProbe.HTTPGet.Path, serve.ReadinessProbe.HTTPGet.Path} {
		answer, err := http.Get(address + path)
		limittest.Must(t, err)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}

	piece := &m.job.Spec.Template.Spec.Containers[0]
	limittest.Must(t, os.Symlink(tool, filepath.Join(dir, piece.Command[0])))
	program := filepath.Join(dir, piece.Command[len(piece.Command)-1]) // the work, which takes no arguments
	limittest.Must(t, os.WriteFile(program, []byte("#!/bin/sh\necho sent\n"), 0o700))
	run := exec.Command(filepath.Join(dir, piece.Command[0]), piece.Command[1:]...)
	run.Env = env(piece)
	if out, err := run.CombinedOutput(); err != nil || string(out) != "sent\n" {
		t.Errorf("%v: %v: %s", piece.Command, err, out)
	}
}
