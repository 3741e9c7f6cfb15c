# syntax=docker/dockerfile:1
# The image of examprep; hack/image builds the same without a container engine (make image).
#
#   docker build --build-arg VERSION=1.2.3 --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) --sbom=true --provenance=mode=max -t examprep:1.2.3 .
#
# The builder needs no pin by digest: nothing of it but a Go that fetches Go reaches the image. The toolchain that
# compiles and every module are fetched by checksum (GOTOOLCHAIN in hack/image, go.sum), and the binary depends on
# nothing else. It runs on the build machine's own architecture and compiles for the target's.
ARG GO_IMAGE=golang:1.26

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY hack/image/go.mod hack/image/go.sum hack/image/
RUN --mount=type=cache,target=/go/pkg/mod go mod download && go -C hack/image mod download
COPY . .
ARG VERSION=dev
ARG SOURCE_DATE_EPOCH=0
ARG TARGETPLATFORM
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache \
    CGO_ENABLED=0 GOCACHE=/cache go build -C hack/image -o /usr/local/bin/image . && \
    image -rootfs /rootfs -platform "${TARGETPLATFORM:-linux/amd64}" -version "$VERSION"

FROM scratch
ARG VERSION=dev
ARG REVISION=
LABEL org.opencontainers.image.title="examprep" \
      org.opencontainers.image.description="Exam platform: real past papers, timed mock exams, signed webhooks" \
      org.opencontainers.image.url="https://examprep.dev" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /rootfs/ /
USER 65532:65532
WORKDIR /
EXPOSE 8080 8081 9090
ENTRYPOINT ["/examprep"]
