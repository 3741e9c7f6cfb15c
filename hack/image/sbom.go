package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// listContents reads back from the binary which modules are in it and writes them as a CycloneDX document, with the
// compiler's own library and the bundle of root certificates.
func listContents(s settings, platform v1.Platform, binary, digest string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", binary, err)
	}
	components := []cyclonedx.Component{{
		Type: cyclonedx.ComponentTypeLibrary, BOMRef: "std", Name: "std",
		Version: strings.TrimPrefix(info.GoVersion, "go"), PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}}
	modules := info.Deps
	if own, ok := debug.ReadBuildInfo(); ok {
		for _, module := range own.Deps {
			if module.Path == "golang.org/x/crypto/x509roots/fallback" {
				modules = append(modules, module)
			}
		}
	}
	for _, module := range modules {
		components = append(components, componentOf(module))
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	document := cyclonedx.NewBOM()
	document.Metadata = &cyclonedx.Metadata{
		Timestamp: s.created.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			Type: cyclonedx.ComponentTypeContainer, BOMRef: "examprep", Name: "examprep", Version: s.version,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: digest}},
			Properties: &[]cyclonedx.Property{
				{Name: "platform", Value: platform.String()}, {Name: "revision", Value: s.revision},
			},
		},
	}
	document.Components = &components
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(document); err != nil {
		return nil, fmt.Errorf("write the list of contents: %w", err)
	}
	return text.Bytes(), nil
}

func componentOf(module *debug.Module) cyclonedx.Component {
	if module.Replace != nil {
		module = module.Replace
	}
	return cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, BOMRef: module.Path, Name: module.Path, Version: module.Version,
		PackageURL: "pkg:golang/" + module.Path + "@" + module.Version,
		// Go's own digest of the module's files: what go.sum and the checksum database hold.
		Properties: &[]cyclonedx.Property{{Name: "go:sum", Value: module.Sum}},
	}
}
