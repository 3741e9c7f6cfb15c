package v1alpha1

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crds/*.yaml
var crds embed.FS

// CRD returns the custom resource definition of a kind, by its plural name such as "examcontents". It is the one that the
// chart installs.
func CRD(plural string) (*apiextensionsv1.CustomResourceDefinition, error) {
	text, err := crds.ReadFile("crds/" + GroupVersion.Group + "_" + plural + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("read CRD: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		return nil, fmt.Errorf("decode CRD %s: %w", plural, err)
	}
	return crd, nil
}
