# What this needs: Go 1.26, git, GNU make, Linux. With a C compiler, tests run under the race detector too.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# PROFILE=kubelet gives the lab's kubelets the delays that were measured on real ones; KEEP=1 leaves the demo's cluster up until Ctrl-C.
PROFILE ?=
KEEP    ?=

# Objects that name no directory are taken from the cache in every checkout, and by the builds of programs as well as by the tests.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -trimpath)

# All but the race detector is compiled without cgo, as releases and the programs of the lab are: the standard library and all that depends on it would
# be compiled once more otherwise, which takes minutes without a cache.
export CGO_ENABLED := 0
with_cgo           := CGO_ENABLED=1

ldflags    = -X main.version=$(VERSION)
demo_flags = $(if $(PROFILE),--profile $(PROFILE)) $(if $(filter-out 0 no false,$(KEEP)),--keep)
# The race detector needs cgo, and cgo a C compiler.
race      := $(if $(shell command -v "$$($(GO) env CC)" 2>/dev/null),-race)
controller_gen = sigs.k8s.io/controller-tools/cmd/controller-gen
lint_tool  = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
# The directories below $(1) whose tests have golden files.
goldens    = $(shell cd $(1) && grep -rl --include='*_test.go' '^var update = ' . | grep -v -e '^./lab/' -e '^./tools/' | xargs -r -n1 dirname | sort -u)

.PHONY: help
help: ## Print what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the product's programs into bin/
	$(GO) build -ldflags '$(ldflags)' -o bin/ ./cmd/...

.PHONY: demo
demo: ## Migrate a real cluster on this machine and write out/demo/report.html (PROFILE=kubelet, KEEP=1)
	cd lab && $(GO) build -o ../bin/demo ./cmd/demo
	cd lab && exec ../bin/demo --out $(CURDIR)/out/demo $(demo_flags)

.PHONY: pictures
pictures: demo ## Draw the pictures of the documentation from a migration of make demo: docs/images
	cp out/demo/report.svg docs/images/report.svg

.PHONY: lab
lab: ## Run a lab cluster until Ctrl-C, to look at and try things on (PROFILE=kubelet)
	cd lab && $(GO) build -o ../bin/lab ./cmd/lab
	cd lab && exec ../bin/lab up --dir $(CURDIR)/out/lab $(if $(PROFILE),--profile $(PROFILE))

# A cluster of real hosts (needs root, see docs/explanation/lab-hosts.md): its name, and further flags of lab hosts up.
NAME       ?= lab
HOSTS_ARGS ?=

.PHONY: hosts-up
hosts-up: ## Make a real kubeadm cluster of three hosts on this machine; needs root (NAME=lab, HOSTS_ARGS='--workers 1 --workload')
	cd lab && $(GO) build -o ../bin/lab ./cmd/lab
	cd lab && exec ../bin/lab hosts up --name $(NAME) $(HOSTS_ARGS)

.PHONY: hosts-down
hosts-down: ## Remove the cluster of hosts-up, or what is left of it (NAME=lab)
	cd lab && $(GO) build -o ../bin/lab ./cmd/lab
	cd lab && exec ../bin/lab hosts down --name $(NAME)

.PHONY: e2e-hosts
e2e-hosts: ## Migrate a kubeadm cluster of real hosts and bring it back, then let another move its loops again and again; needs root (writes out/hosts/)
	cd lab && $(GO) test ./hosts/stage -count=1 -v -timeout 0 -hosts.real -hosts.out=$(CURDIR)/out/hosts

.PHONY: bad-hosts
bad-hosts: stage := $(GO) test ./hosts/stage -count=1 -v -timeout 0 -hosts.real -hosts.bad -hosts.out=$(CURDIR)/out/hosts
bad-hosts: ## Give real hosts what an operator meets on a bad day: budgets, lost hosts, kubelets that do not start, work by hand, a new version; needs root
	cd lab && $(stage) -run RealHostsTakeBadInputs -hosts.name=bad -hosts.subnet=10.81.0.0/24 -hosts.control-planes=1 -hosts.workers=3
	cd lab && $(stage) -run 'RealHosts(GoToTheNextVersion|LoseAControlPlane)' -hosts.name=bad3 -hosts.subnet=10.82.0.0/24 -hosts.control-planes=3 -hosts.workers=0 -hosts.with-version=v1.27.4

# The version of the manager that deploy/manifests names, under which its image is built for the hosts.
manifest_version = $(shell sed -n 's/.*image: .*:\(v[^ ]*\)$$/\1/p' deploy/manifests/aws.yaml)
hosts_images     = $(CURDIR)/out/hosts/images

.PHONY: install-hosts
install-hosts: ## Install the manager from deploy/ with its real image on real hosts that went out of tree by hand, along AWS' guide; needs root
	cd tools && $(GO) run ./cmd/images --root $(CURDIR) --out $(hosts_images) --version $(manifest_version) \
		--arch $$($(GO) env GOARCH) --program aws-cloud-controller-manager
	cd lab && $(GO) test ./hosts/stage -run RealHostsRunTheManager -count=1 -v -timeout 0 -hosts.real -hosts.images=$(hosts_images) \
		-hosts.name=inst -hosts.subnet=10.85.0.0/24 -hosts.out=$(CURDIR)/out/hosts

# Packages that the race detector would only make ten times slower. The first ones start no goroutine. Of the others a part is raced in each make test:
# whatever they do side by side, and the engine's whole migration. make race races all of them.
pure    := ./internal/plan ./internal/check ./internal/controlplane ./internal/catalogue ./internal/repopolicy ./internal/mask ./internal/safeyaml
engine  := ./internal/migrate ./internal/migrate/journal ./internal/migrate/lock ./internal/hosted ./internal/cli ./internal/answerlimit
# Upstream's controllers run here, and its service controller has a data race. Ours are raced in their own packages.
upstream := ./ccm/conformance
# The SDKs of Azure and GCE take minutes to compile a second time, and these tests start nothing: the lab's ask both providers side by side.
sdks    := $(foreach cloud,azure gce,./provider/$(cloud)/... ./cmd/$(cloud)-cloud-controller-manager)
unraced := $(pure) $(engine) $(upstream) $(sdks)
# Tests of the engine, the command line and the limits of answers in which something runs side by side.
concurrent := Batch|Budget|Lock|Progress|TwoAtOnce|TestAWholeMigrationAndItsRollback|OwnersThatCannotBeAsked|Fleet|Rollout|Watching|Watched|Probe|Interrupt|LostSession|Pausing|HoldOf|AppliedMigration|Published|Turn|AtATime|AtOnce|TakenOver|Held|Done|Room

.PHONY: test
test: ## Run every test in its short version: units, those with goroutines raced, next to the lab's, which migrate real clusters (SHUFFLE=on)
	$(if $(race),,@echo "no C compiler: testing without the race detector")
	@$(MAKE) --no-print-directory --output-sync=target -j2 test-lab test-units

# SHUFFLE=on, or a seed that a run has printed, has tests run in another order than they are written in. go test remembers no such run.
SHUFFLE ?=

# go vet is a part of make lint, with everything else that reads the code; there is no need to do it once more for each way of building it. The time limit
# is for what hangs: on a busy machine lab/trial took 40 minutes.
test_flags = -vet=off -timeout 100m $(if $(SHUFFLE),-shuffle=$(SHUFFLE))

# Tests of the tools that read files outside of their module, at which go test does not look when it remembers a result.
outside := ^Test(Workflows|TheProductCanBeReleased)$$

.PHONY: test-units
test-units: # all three, whichever fails
	failed=0; \
	$(GO) test $(test_flags) $(unraced) || failed=1; \
	$(if $(race),$(with_cgo) $(GO) test $(test_flags) $(race) -run '$(concurrent)' $(engine) || failed=1;) \
	$(if $(race),$(with_cgo)) $(GO) test $(test_flags) $(race) $$($(GO) list ./... | grep -v -x -F "$$($(GO) list $(unraced))") || failed=1; \
	(cd tools && $(GO) test $(test_flags) ./images ./kops ./dashboards ./release/...) || failed=1; \
	(cd tools && $(GO) test $(test_flags) -count=1 ./release -run '$(outside)') || failed=1; \
	(cd credentials && $(GO) test $(test_flags) ./...) || failed=1; \
	exit $$failed

# What the checkout is made of. The lab's tests run programs that they compile of it themselves, so that go test would not know when what it remembers of
# them has become untrue; lab/build asks for the variable, which makes it a part of what is remembered.
sources = find . \( -path ./.git -o -path ./bin -o -path ./out \) -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum

# The tests of the lab that take longest, the longest first: one that begins last keeps everybody waiting.
longest := ./trial ./hosts ./fleet ./faults/processlab ./fleetapi

# Packages of benchmarks alone: to run no test, their upstream providers would be compiled for minutes. make lint compiles them.
benchmarks := ./cloudbench

# The programs of Kubernetes that these tests start. They are compiled before: the time limit of a test would count it. Each version takes two processors
# ten minutes. Real hosts need containerd, and their tests are skipped without it.
comma    := ,
lab_sets := etcd-v3.5.15,kubernetes-v1.26.0$(if $(shell command -v containerd),$(comma)node-v1.26.0)

.PHONY: test-lab
test-lab:
	cd lab && $(GO) run ./cmd/lab build --set $(lab_sets) >/dev/null
	cd credentials && $(GO) build ./cmd/... tool
	export TRANSPLANT_SOURCES="$$($(sources))" && cd lab && $(GO) test $(test_flags) $(longest) $$($(GO) list ./... | grep -v -x -F "$$($(GO) list $(longest) $(benchmarks))")

# Compilers run at the lowest priority: next to the clusters of the tests they would take hours.
e2e_sets := $(lab_sets),kubernetes-v1.24.17,kubernetes-v1.25.0,kubernetes-v1.27.4,kubernetes-v1.30.14,kubernetes-v1.31.0,kube-apiserver-v1.30.14,kube-apiserver-v1.37.2,ebs-csi-v1.63.1

# The packages whose tests take a flag for how many events come in a minute.
stormy := $(addprefix ./ccm/,node nodeipam nodeipam/fromcloud nodelifecycle route service)

.PHONY: e2e
e2e: ## Run the long versions of the lab's tests, an hour after an hour of compilers: crashes, upgrades, mistakes of the documents, every fix, every scenario
	cd lab && $(GO) run ./cmd/lab build --set $(e2e_sets) >/dev/null
	failed=0; \
	$(GO) test ./internal/hosted -count=1 -timeout 0 -hosted.all || failed=1; \
	$(GO) test ./ccm/election -run TestALeaderThatLivesIsNotTakenOver -count=1 -v -timeout 0 -model.all || failed=1; \
	$(GO) test $(stormy) -run TestMany -count=1 -timeout 0 -events=100000 || failed=1; \
	$(GO) test ./internal/migrate/journal -run TestAJournalOfFiveThousandWorkers -count=1 -v -timeout 0 -migrate.all || failed=1; \
	(cd lab && $(GO) test ./trial -count=1 -v -timeout 0 -trial.all) || failed=1; \
	(cd lab && $(GO) test ./field -count=1 -v -timeout 0 -field.all) || failed=1; \
	(cd lab && $(GO) test ./ccmtrial -count=1 -v -timeout 0 -ccmtrial.freezes=3 -ccmtrial.handovers=10) || failed=1; \
	(cd lab && $(GO) test ./mains -count=1 -v -timeout 0 -mains.all) || failed=1; \
	(cd lab && $(GO) test ./openstacktrial -run Simulator -count=1 -v -timeout 0 -openstack.all) || failed=1; \
	(cd lab && $(GO) test ./azuresim -run Program -count=1 -v -timeout 0 -azure.all) || failed=1; \
	(cd lab && $(GO) test ./gcesim -run Program -count=1 -v -timeout 0 -gce.all) || failed=1; \
	(cd lab && $(GO) test ./vsphereccm -run Program -count=1 -v -timeout 0 -vsphere.all) || failed=1; \
	(cd lab && $(GO) test ./bench -count=1 -v -timeout 0 -bench.all) || failed=1; \
	(cd lab && $(GO) test ./install -count=1 -v -timeout 0 -install.all) || failed=1; \
	exit $$failed # all of them, whichever fails

.PHONY: race
race: ## Run every test of the units under the race detector, also those in which hardly anything runs side by side
	$(if $(race),,$(error needs a C compiler))
	$(with_cgo) $(GO) test -timeout 0 $(race) ./...

.PHONY: test-short
test-short: ## Run the tests that start no cluster
	$(GO) test -short -timeout 10m ./...
	cd lab && $(GO) test -short -timeout 10m ./...

# RUNS migrations, each with its rollback, of one lab.
RUNS ?= 10

.PHONY: gaps
gaps: ## Measure how long nobody runs a loop, over RUNS=10 migrations (PROFILE=kubelet)
	cd lab && $(GO) test ./trial -run TestGapDistribution -count=1 -v -timeout 0 -lab.runs=$(RUNS) $(if $(PROFILE),-lab.profile=$(PROFILE))

# The variables of a bench, each with the flag that it becomes; see docs/reference/bench.md.
bench_flags = $(foreach v,SCENARIO IMPLEMENTATIONS NODES SERVICES THROTTLE LIMIT WINDOW ROUNDS,$(if $($(v)),--$(shell echo $(v) | tr A-Z a-z) $($(v)))) \
	$(if $(KUBE_APISERVER),--kube-apiserver $(KUBE_APISERVER)) $(if $(filter-out 0 no false,$(KEEP_RESULTS)),--keep)

.PHONY: conformance
conformance: ## Run the scenarios of upstream's own tests with upstream's controllers and with ours, and print how ours do
	@mkdir -p out
	@$(GO) test ./ccm/conformance -run TestOursDoesWhatUpstreamDoes -count=1 -v > out/conformance.txt 2>&1; status=$$?; \
	grep -v -e '^=== ' -e '--- PASS' -e '^[IWE][0-9]' out/conformance.txt; exit $$status

.PHONY: bench-programs
bench-programs:
	cd lab && $(GO) build -o ../bin/ ./cmd/bench ./cmd/sim-cloud-controller-manager

.PHONY: bench
bench: bench-programs ## Measure our manager next to upstream's and write out/bench/ (SCENARIO=join, NODES=1000, ...)
	cd lab && exec ../bin/bench --out $(CURDIR)/out/bench $(bench_flags)

.PHONY: bench-clouds
bench-clouds: ## Measure OpenStack's and vSphere's providers on their simulators, next to gophercloud and upstream's (five minutes)
	cd lab && $(GO) test ./cloudbench -run '^$$' -bench . -benchtime 1x -count=1 -v -timeout 0

.PHONY: bench-short
bench-short: bench-programs ## Measure the short form of the bench in thirteen minutes, and write its ratios into docs/reference/bench.md
	cd lab && exec ../bin/bench --out $(CURDIR)/out/bench-short --throttle off --nodes 300 --rounds 2 --window $(or $(WINDOW),30s) \
		--scenario join,services,vanished,steady,handover-planned,handover-crash \
		--page $(CURDIR)/docs/reference/bench.md --commit $$(git describe --always --dirty --exclude '*')

# STRATEGIES and CAMPAIGNS choose parts of the matrix; see docs/reference/faults.md.
faults_flags = $(if $(STRATEGIES),-faults.strategies=$(STRATEGIES)) $(if $(CAMPAIGNS),-faults.campaigns=$(CAMPAIGNS))

.PHONY: providers
providers: runs := out/provider-runs.json
providers: ## Migrate clusters of every provider, in-tree minor, shape and strategy that the lab has, there and back, two hours; write docs/reference/providers.md
	mkdir -p out && cp docs/reference/provider-runs.json $(runs)
	failed=0; \
	(cd lab && $(GO) test ./trial -count=1 -v -timeout 0 -parallel 1 -trial.all -trial.minors -trial.runs=$(CURDIR)/$(runs) -run '(BroughtBack|ThereAndBack|OfUnitsIsMigrated|OfDeploymentsIsMigrated|WhosePodCIDRsComeFromTheCloud|UpgradeOnTheWayAndBack|GoesToTheFirstVersionWithoutInTreeCode)$$') || failed=1; \
	cp $(runs) docs/reference/provider-runs.json && (cd lab && $(GO) test ./trial -count=1 -run PageOfProviders -trial.update) || failed=1; \
	exit $$failed

.PHONY: faults
faults: ## The long campaigns: let everything go wrong at every step (out/faults/matrix.md); freeze, end and kill managers a hundred times
	cd lab && $(GO) test ./faults/processlab -run TestEveryFault -count=1 -v -timeout 0 -faults.matrix=$(CURDIR)/out/faults $(faults_flags)
	$(if $(STRATEGIES)$(CAMPAIGNS),,cd lab && $(GO) test ./ccmtrial -count=1 -v -timeout 0 -ccmtrial.freezes=100 -ccmtrial.handovers=100)

# SEED chooses the disturbances, to see those of an earlier run again; it is printed.
SEED ?= 0

.PHONY: handovers
handovers: ## Disturb managers, the API and the cloud at random, a thousand times, a thousand more in pods, and while a migration moves the loops: three hours (SEED=...)
	failed=0; \
	(cd lab && $(GO) test ./ccmtrial -run RandomDisturbances -count=1 -v -timeout 0 -ccmtrial.random=940 -ccmtrial.seed=$(SEED)) || failed=1; \
	(cd lab && $(GO) test ./ccmtrial -run RandomDisturbances -count=1 -v -timeout 0 -ccmtrial.random=1000 -ccmtrial.pods -ccmtrial.seed=$(SEED)) || failed=1; \
	(cd lab && $(GO) test ./faults/processlab -run RandomFaults -count=1 -v -timeout 0 -faults.random=60 -faults.seed=$(SEED)) || failed=1; \
	exit $$failed

# FAULTS_HOSTS_ARGS chooses another cluster, e.g. '-hosts.control-planes=1 -hosts.outage=20s'.
FAULTS_HOSTS_ARGS ?=

.PHONY: faults-hosts
faults-hosts: ## Let something go wrong at every step on real hosts, there and back; needs root (out/hosts/e2e/matrix-hosts.md)
	cd lab && $(GO) test ./hosts/stage -run GetOver -count=1 -v -timeout 0 -hosts.real -hosts.faults -hosts.out=$(CURDIR)/out/hosts $(FAULTS_HOSTS_ARGS)

# A directory in which another OpenStack of lab/openstackreal runs already.
OPENSTACK_DIR ?=

.PHONY: e2e-openstack
e2e-openstack: runs := out/provider-runs.json
e2e-openstack: ## Install and run a real OpenStack on this machine, take our OpenStack provider through a cluster's life on it, and write the migrations' rows of docs/reference/providers.md; needs root and Debian 12
	cd lab && $(GO) test ./openstackreal ./openstacktrial -p 1 -count=1 -v -timeout 0 -openstack.real $(if $(OPENSTACK_DIR),-openstack.dir=$(OPENSTACK_DIR))
	mkdir -p out && cp docs/reference/provider-runs.json $(runs)
	cd lab && $(GO) test ./trial -run RealOpenStack -count=1 -v -timeout 0 -trial.openstack -trial.all -trial.runs=$(CURDIR)/$(runs)
	cp $(runs) docs/reference/provider-runs.json && cd lab && $(GO) test ./trial -count=1 -run PageOfProviders -trial.update

.PHONY: fleet
fleet: ## Try the operator on a seed with user clusters: the guide, the holes of the original, bad input
	cd lab && $(GO) test ./fleet ./fleetapi -count=1 -v -timeout 0 -p 1 -fleet.all

# CLUSTERS of the benchmark, and how many of them are migrated first.
CLUSTERS ?= 500
WAVE     ?= 20

.PHONY: bench-large
bench-large: bench-programs ## Measure 15,000 nodes and 2,000 load balancers next to tuned upstream, and write the ratios into docs/reference/bench.md
	cd lab && exec ../bin/bench --out $(CURDIR)/out/bench-large --throttle off --nodes 15000 --services 2000 --window $(or $(WINDOW),3m) --limit 15m \
		--implementations upstream-tuned,ours --scenario join,services,churn,zone-lost
	cd lab && exec ../bin/bench --out $(CURDIR)/out/bench-large --keep --throttle off --nodes 5000,15000 --window $(or $(WINDOW),3m) --limit 15m \
		--implementations upstream-tuned,ours --scenario steady \
		--page $(CURDIR)/docs/reference/bench.md --page-target bench-large --commit $$(git describe --always --dirty --exclude '*')

.PHONY: bench-fleet
bench-fleet: ## Measure the operator with CLUSTERS=500 Clusters, WAVE=20 of them migrated first (writes out/bench-fleet/)
	cd lab && $(GO) test ./fleet -run TestAFleetCosts -count=1 -v -timeout 0 -fleet.clusters=$(CLUSTERS) -fleet.migrate=$(WAVE) -fleet.idle=60s -fleet.out=$(CURDIR)/out/bench-fleet

.PHONY: observe
observe: ## Have a real Prometheus see a migration and a fleet, with our rules and what our dashboards ask (out/observe/); downloads Debian's package of it
	cd lab && $(GO) test ./observe -count=1 -v -timeout 0 -observe.out=$(CURDIR)/out/observe
	cd lab && $(GO) test ./fleet -run TestAFleetIsSeen -count=1 -v -timeout 0 -fleet.observe=$(CURDIR)/out/observe

.PHONY: images
images: ## Build the container images of all programs, for amd64 and arm64, as OCI layouts in out/images (VERSION=v0.1.0)
	cd tools && $(GO) run ./cmd/images --root $(CURDIR) --out $(CURDIR)/out/images --version $(VERSION)

# The versions that upstream's image credential providers say, by the module that they are tools of.
upstream_version = $$(cd credentials && $(GO) list -m -f '{{.Version}}' $(1))
provider_flags   = -s -w $(ldflags) -X main.gitVersion=$(call upstream_version,k8s.io/cloud-provider-aws) \
	-X sigs.k8s.io/cloud-provider-azure/pkg/version.gitVersion=$(call upstream_version,sigs.k8s.io/cloud-provider-azure)

.PHONY: credential-providers
credential-providers: ## Build the image credential providers of kubelets, for amd64 and arm64 (out/credential-providers/)
	for arch in amd64 arm64; do \
		(cd credentials && CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -ldflags "$(provider_flags)" -o $(CURDIR)/out/credential-providers/$$arch/ ./cmd/... tool) || exit 1; \
	done

# RELEASE_ARGS: see go run ./cmd/release --help in tools, such as '--program transplant --platform linux/amd64 --development'.
RELEASE_ARGS ?=

.PHONY: release
release: ## Write a release to out/release: archives, charts, manifests, krew's manifest, checksums (VERSION=v0.1.0, after make images with the same)
	cd tools && $(GO) run ./cmd/release --root $(CURDIR) --out $(CURDIR)/out/release --images $(CURDIR)/out/images --version $(VERSION) $(RELEASE_ARGS)

.PHONY: images-run
images-run: ## Run each image of make images under a containerd of its own; needs root, and Debian's containerd and runc
	cd tools && $(GO) test ./images -count=1 -v -images.run=$(CURDIR)/out/images

.PHONY: kops-example
kops-example: ## Write a kOps cluster with an external manager to out/kops-example, and say how it is created (CLUSTER, ZONE, STATE, IMAGE)
	cd tools && $(GO) run ./cmd/kops-example --out $(CURDIR)/out/kops-example $(if $(CLUSTER),--name $(CLUSTER)) $(if $(ZONE),--zone $(ZONE)) \
		$(if $(STATE),--state $(STATE)) $(if $(IMAGE),--image $(IMAGE))

.PHONY: captures
captures: ## Take the snapshots that the rules are tested with from real API servers again
	cd lab && $(GO) test ./field -run Captured -count=1 -field.all -update

.PHONY: skew
skew: ## Run our manager against every kube-apiserver that can be built, of every minor of its range
	cd lab && $(GO) test ./skew -count=1 -v -timeout 0 -parallel 1 -skew.all

# How long each fuzz target of the product runs.
FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: ## Feed every fuzz target for FUZZTIME=30s
	@for file in $$(grep -rl --include='*_test.go' '^func Fuzz' ccm provider internal); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\).*/\1/p' $$file); do \
			echo "$$target in $$(dirname $$file)"; \
			$(GO) test ./$$(dirname $$file) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) || exit 1; \
		done; \
	done

.PHONY: lint
lint: bin/golangci-lint ## Lint the product, the lab and the tools
	$(GO) vet -tags faults ./cmd/transplant ./internal/fault
	bin/golangci-lint run ./...
	cd lab && ../bin/golangci-lint run --config ../.golangci.yml ./...
	cd tools && ../bin/golangci-lint run --config ../.golangci.yml ./images ./kops ./dashboards ./release/... ./cmd/...
	cd credentials && ../bin/golangci-lint run --config ../.golangci.yml ./...

bin/golangci-lint: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../bin/golangci-lint $(lint_tool)

.PHONY: docs
docs: generate ## The same as make generate: the reference pages are among what it writes

.PHONY: generate
generate: ## Rewrite the golden files from what the code does now, to be reviewed as a diff
	$(GO) test $(call goldens,.) -update
	cd lab && $(GO) test -short $(call goldens,lab) -update
	cd tools && $(GO) test $(call goldens,tools) -update

crds = deploy/crds
api  = api/kubermatic/v1

# Both groups have the same kinds: the second CRD is the first under the legacy group's name, with the annotation that a protected group (*.k8s.io) demands.
unapproved = unapproved, the group of the published guide to the migration

.PHONY: generate-api
generate-api: bin/controller-gen ## Rewrite the deep copies and CRDs of the Cluster API from its Go types
	bin/controller-gen object crd:maxDescLen=300 paths=./$(api) output:crd:dir=$(crds)
	sed -e 's/kubermatic\.k8c\.io/kubermatic.k8s.io/g' -e 's/^  annotations:$$/&\n    api-approved.kubernetes.io: "$(unapproved)"/' \
		$(crds)/kubermatic.k8c.io_clusters.yaml > $(crds)/kubermatic.k8s.io_clusters.yaml
	sha256sum $$(ls $(api)/*.go $(crds)/*.yaml | grep -v _test.go) > $(crds)/generated.sha256

bin/controller-gen: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../bin/controller-gen $(controller_gen)

.PHONY: verify
verify: lint test-short ## Check everything that needs no cluster: lint, tests, tidy modules, unchanged module contents
	$(GO) mod tidy -diff
	cd lab && $(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	cd credentials && $(GO) mod tidy -diff
	$(GO) mod verify

.PHONY: clean
clean: ## Remove bin/ and out/; the lab's built programs stay in the user's cache
	rm -rf bin out
