# The product's images, each one static program: the command line's, which the pods of --host-access=pod run too, the cloud-controller-managers', whose
# paths (/aws-cloud-controller-manager, ...) are what plans start, and the operator's, as deploy/operator has it.
#
#   docker build --build-arg VERSION=v0.1.0 --target transplant -t ghcr.io/transplant-dev/transplant:v0.1.0 .
#   docker build --build-arg VERSION=v0.1.0 --target aws-cloud-controller-manager -t ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0 .
#   docker build --build-arg VERSION=v0.1.0 --target transplant-operator -t ghcr.io/transplant-dev/transplant-operator:v0.1.0 .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH VERSION=v0.1.0-dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/ ./cmd/...

FROM scratch AS transplant
COPY --from=build /out/transplant /transplant
ENTRYPOINT ["/transplant"]

FROM scratch AS aws-cloud-controller-manager
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/aws-cloud-controller-manager /aws-cloud-controller-manager
ENTRYPOINT ["/aws-cloud-controller-manager"]

FROM scratch AS openstack-cloud-controller-manager
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/openstack-cloud-controller-manager /openstack-cloud-controller-manager
ENTRYPOINT ["/openstack-cloud-controller-manager"]

FROM scratch AS vsphere-cloud-controller-manager
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/vsphere-cloud-controller-manager /vsphere-cloud-controller-manager
ENTRYPOINT ["/vsphere-cloud-controller-manager"]

FROM scratch AS transplant-operator
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/transplant-operator /transplant-operator
USER 65532:65532
ENTRYPOINT ["/transplant-operator"]
