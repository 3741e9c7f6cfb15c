// Command image builds the container image of examprep without a container engine, as a build machine without one and an
// air-gapped site need it:
//
//	image -o dist/examprep.tar                  an OCI layout that docker load, ctr import and skopeo read as well
//	image -push registry.example.com/examprep   the same image to a registry
//	image -rootfs DIR                           only the files of the image, from which the Dockerfile makes the same
//
// The image is the static binary, the roots of trust of Mozilla's programme (what webhooks, sign-in and managed stores
// are checked by) and an entry for the user without rights that it runs as; there is no shell in it and nothing to
// write to. Go's time zones are left out: the program speaks of UTC only.
//
// The same commit gives the same bytes, anywhere: the Go toolchain and every module are pinned by checksum, paths and
// time are left out of the binary, archives are written in order with the time of the commit (or SOURCE_DATE_EPOCH).
// Beside the image goes a list of what is in it (CycloneDX), read back from the binary itself.
package main
