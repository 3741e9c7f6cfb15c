package controllers

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/postgres"
)

const (
	releases = "../config/crd/released"
	// expectAnnotation says what the operator makes of an object of a release; Ready=True where it is left out.
	expectAnnotation = "examprep.dev/expect"
)

// objectsIn reads the objects of all files in a folder.
func objectsIn(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			objects = append(objects, object)
		}
	}
	return objects
}

// TestObjectsOfEveryReleaseOutliveTheUpgrade: what was stored under the CRDs of a release can be read, written back and
// reconciled under today's. config/crd/released/README.md says how to add a release.
func TestObjectsOfEveryReleaseOutliveTheUpgrade(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir(releases)
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		tested++
		t.Run(folder.Name(), func(t *testing.T) {
			t.Parallel()
			testUpgradeFrom(t, filepath.Join(releases, folder.Name()))
		})
	}
	if tested == 0 {
		t.Error("no releases")
	}
}

func testUpgradeFrom(t *testing.T, release string) {
	t.Helper()
	config := clustertest.Start(t, nil)
	in := &installation{t: t, kube: clustertest.ClientOf(t, config), config: config}
	in.namespace("exams")
	in.namespace("anew")
	clustertest.InstallCRDs(t, config, strings.TrimPrefix(release, "../")+"/crds")
	valid, stored := objectsIn(t, release+"/valid"), objectsIn(t, release+"/stored")
	objects := slices.Concat(valid, stored)
	for _, object := range objects {
		in.store(object.DeepCopy())
	}

	clustertest.InstallCRDs(t, config, "config/crd/bases")
	in.updateUnchanged(objects)
	for _, object := range valid {
		again := object.DeepCopy()
		again.SetNamespace("anew")
		if err := in.kube.Create(t.Context(), again, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Errorf("today's CRDs refuse %s %s, which the release took: %v", object.GetKind(), object.GetName(), err)
		}
	}
	in.serve(postgres.Sandbox)
	in.operate()
	for _, object := range objects {
		in.reconciled(object)
	}
	in.updateUnchanged(objects)
}

// store creates an object, with its status as it is given.
func (in *installation) store(object *unstructured.Unstructured) {
	in.t.Helper()
	status, given := object.Object["status"]
	object.SetNamespace(in.space())
	in.create(object)
	if !given {
		return
	}
	object.Object["status"] = status
	if err := in.kube.Status().Update(in.t.Context(), object); err != nil {
		in.t.Fatalf("status of %s: %v", object.GetName(), err)
	}
}

// updateUnchanged reads each object and writes back what it read, by our types and without them; then changes its
// metadata alone.
func (in *installation) updateUnchanged(objects []*unstructured.Unstructured) {
	in.t.Helper()
	for _, object := range objects {
		name := object.GetKind() + " " + object.GetName()
		untyped := &unstructured.Unstructured{}
		untyped.SetGroupVersionKind(object.GroupVersionKind())
		typed, err := in.kube.Scheme().New(object.GroupVersionKind())
		if err != nil {
			in.t.Fatal(err)
		}
		for _, current := range []client.Object{untyped, typed.(client.Object)} { //nolint:errcheck // our scheme's kinds are
			in.eventually("update "+name, func() (bool, string) {
				if err := in.kube.Get(in.t.Context(), client.ObjectKey{Namespace: in.space(), Name: object.GetName()}, current); err != nil {
					return false, err.Error()
				}
				generation := current.GetGeneration()
				err := in.kube.Update(in.t.Context(), current)
				// Our types write a duration another way than it was declared: 1m0s for 60s.
				if err == nil && current == client.Object(untyped) && current.GetGeneration() != generation {
					in.t.Errorf("%s: writing it back as it was changes its spec", name)
				}
				return err == nil, errorText(err)
			})
		}
		in.eventually("label "+name, func() (bool, string) {
			if err := in.kube.Get(in.t.Context(), client.ObjectKey{Namespace: in.space(), Name: object.GetName()}, untyped); err != nil {
				return false, err.Error()
			}
			untyped.SetLabels(map[string]string{"touched": "true", v1alpha1.ContentLabel: "true"})
			before := untyped.DeepCopy()
			err := in.kube.Update(in.t.Context(), untyped)
			if err == nil && !equality.Semantic.DeepEqual(before.Object["spec"], untyped.Object["spec"]) {
				in.t.Errorf("%s: a label changed its spec", name)
			}
			return err == nil, errorText(err)
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// reconciled waits until the operator has made of an object what is expected.
func (in *installation) reconciled(object *unstructured.Unstructured) {
	in.t.Helper()
	if object.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
		return
	}
	want := object.GetAnnotations()[expectAnnotation]
	if want == "" {
		want = "Ready=True"
	}
	in.eventually(object.GetKind()+" "+object.GetName()+" is "+want, func() (bool, string) {
		current := &unstructured.Unstructured{}
		current.SetGroupVersionKind(object.GroupVersionKind())
		if err := in.kube.Get(in.t.Context(), client.ObjectKey{Namespace: in.space(), Name: object.GetName()}, current); err != nil {
			return false, err.Error()
		}
		conditions, _, _ := unstructured.NestedSlice(current.Object, "status", "conditions")
		for _, condition := range conditions {
			fields, ok := condition.(map[string]any)
			if ok && fields["type"] == v1alpha1.ConditionReady && fields["message"] != "as it was" {
				return "Ready="+fields["status"].(string) == want, fields["message"].(string) //nolint:errcheck // required by the schema
			}
		}
		return false, "not seen yet"
	})
}
