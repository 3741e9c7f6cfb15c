package controllers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const assembledFrom = "assembly 4: 24e6d104bcc5e556"

// TestWhatChangesWhatIsMadeRaisesAssembly: an exam that was published before such a change is not looked at again otherwise.
func TestWhatChangesWhatIsMadeRaisesAssembly(t *testing.T) {
	t.Parallel()
	text := testkit.ReadFile(t, filepath.Join("..", "config", "crd", "bases", "examprep.dev_examcontents.yaml"))
	var crd apiextensionsv1.CustomResourceDefinition
	check.NoError(t, yaml.Unmarshal(text, &crd))
	digest := sha256.New()
	for _, served := range crd.Spec.Versions {
		spec := served.Schema.OpenAPIV3Schema.Properties["spec"]
		withoutDescriptions(&spec)
		schema := testkit.Encode(t, spec)
		fmt.Fprintf(digest, "%s %s\n", served.Name, schema)
	}
	fmt.Fprintln(digest, shapeOf(reflect.TypeFor[catalog.Exam](), map[reflect.Type]bool{}))
	if got := fmt.Sprintf("assembly %d: %s", assembly, hex.EncodeToString(digest.Sum(nil)[:8])); got != assembledFrom {
		t.Errorf("What ExamContent takes, or what is made of it, has changed: %s, was %s.\n"+
			"Raise assembly in source.go, unless every resource makes what it made before; then set assembledFrom.", got, assembledFrom)
	}
}

// withoutDescriptions leaves of a schema what it means.
func withoutDescriptions(schema *apiextensionsv1.JSONSchemaProps) {
	schema.Description = ""
	for name, property := range schema.Properties {
		withoutDescriptions(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		withoutDescriptions(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		withoutDescriptions(schema.AdditionalProperties.Schema)
	}
}

func shapeOf(of reflect.Type, known map[reflect.Type]bool) string {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return of.Kind().String() + " " + shapeOf(of.Elem(), known)
	case reflect.Struct:
	default:
		return of.String()
	}
	if known[of] {
		return of.String()
	}
	known[of] = true
	var shape strings.Builder
	shape.WriteString(of.String() + "{")
	for field := range of.Fields() {
		fmt.Fprintf(&shape, "%s %s %q;", field.Name, shapeOf(field.Type, known), field.Tag)
	}
	return shape.String() + "}"
}
