# The command line's image, which the pods of --host-access=pod run too: one static program and nothing else.
#
#   docker build --build-arg VERSION=v0.1.0 -t ghcr.io/transplant-dev/transplant:v0.1.0 .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH VERSION=v0.1.0-dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /transplant ./cmd/transplant

FROM scratch
COPY --from=build /transplant /transplant
ENTRYPOINT ["/transplant"]
