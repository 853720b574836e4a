package ccm

import (
	"context"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	genericcontrollermanager "k8s.io/controller-manager/app"
)

// shown are the differences of the command and of Run, each with the tests that show it. Those of the controllers are held by
// package conformance.
var shown = map[string]map[string][]func(*testing.T){
	"The command": {
		"it has more flags": {
			TestOurFlagsHaveNoShorthand, TestAnAuthorsFlagsCanBeAddedAsToUpstreamsCommand, TestAnAuthorsFlagGoesBeforeOursOfTheSameName,
		},
		"`--version` is a line with the versions of the libraries, and `--version=json` is for programs": {
			TestTheVersionInALine, TestAnAuthorsFlagsCanBeAddedAsToUpstreamsCommand,
		},
		"SIGTERM and SIGINT end the work, and a second one the process, if nothing else can": {
			TestSignalsAreHandledOnlyForAProgramThatCannotEndTheCommand, TestTheFirstSignalEndsTheWorkAndTheSecondTheProcess, TestAPlannedHandover,
		},
		"more workers and requests by default": {
			TestOurDefaultsTakeThePlaceOfUpstreamsOnly, TestAnAuthorsClientLimitsStay, TestWorkersOfUpstreamsNumberAreSetOnTheFlags,
		},
		"an error is returned, and not printed as well":                     {TestAnErrorIsReturnedAndNotPrintedToo},
		"numbers of workers and periods that have nothing done are refused": {TestBadFlagsAreRefusedByName},
		"with leader migration, all loops that move are under the migration lease, also without a file": {
			TestTheLoopsRunUnderTheMigrationLease, TestLeaderMigrationDividesTheLoopsBetweenTwoLeases,
		},
		"secrets are masked in the logs":                          {TestWhatAProviderLogsShowsNoSecret, TestABuildersAuthorSetsUpLogging},
		"there are `/livez`, `/readyz` and a path for each check": {TestReadyOnlyOnceTheCloudAnswers, TestOnlyTheThreeHealthPathsAreOpenByDefault},
	},
	"Run": {
		"it refuses your writes and events while the process holds none of its leases": {
			TestRunKeepsAnAuthorsWritesToTheTimeOfItsLeases, TestRunSendsNoEventOfAnAuthorsWithoutALease,
		},
		"settings have their defaults, and `--kube-api-qps` is what your options say":                   {TestRunKeepsTheClientLimitsOfItsOptions},
		"our node IPAM controller runs if it is among the InitFuncs and `--allocate-node-cidrs` is set": {TestRunStartsOurNodeIPAMControllerIfItIsGiven},
		"signals are yours":                                {TestRunLeavesSignalsToItsProgram},
		"it returns an error when a lease is lost":         {TestRunReturnsAnErrorWhenItsLeaseIsLost},
		"leader migration is read as the command reads it": {TestRunReadsLeaderMigrationAsTheCommandDoes},
	},
}

func TestEveryDifferenceOfTheCommandIsDocumentedAndShown(t *testing.T) {
	page, err := os.ReadFile("../docs/explanation/cloud-controller-manager.md")
	if err != nil {
		t.Fatal(err)
	}
	for section, differences := range shown {
		_, text, _ := strings.Cut(string(page), "\n### "+section+"\n")
		_, table, _ := strings.Cut(text, "\n| difference | reason |\n|---|---|\n")
		var documented []string
		for line := range strings.SplitSeq(table, "\n") {
			cells := strings.Split(line, " | ")
			if len(cells) != 2 { // the table is over
				break
			}
			documented = append(documented, strings.TrimPrefix(cells[0], "| "))
		}
		slices.Sort(documented)
		if listed := slices.Sorted(maps.Keys(differences)); !slices.Equal(documented, listed) {
			t.Errorf("the section %q documents\n%s\nand tests show\n%s", section, strings.Join(documented, "\n"), strings.Join(listed, "\n"))
		}
	}
}

// The paths of /livez and /readyz are ours alone. Once the library serves /statusz and /flagz, ours has to.
func TestWhatUpstreamServesIsServed(t *testing.T) {
	paths := []string{
		"/healthz", "/configz", "/metrics", "/metrics/slis", "/debug/pprof/", "/debug/flags/v", "/statusz", "/flagz", "/version", "/openapi/v2", "/",
	}
	answers := map[string][]int{}
	for _, l := range libraries {
		server := newAuthorsServer(t)
		started := make(chan struct{}, 1)
		m := l.start(t, server, &authored{}, map[string]app.ControllerInitFuncConstructor{
			"mine": authorsController(nil, func(context.Context, *config.CompletedConfig, cloudprovider.Interface, genericcontrollermanager.ControllerContext) bool {
				started <- struct{}{}
				return true
			}),
		}, append(l.alone(), "--authorization-always-allow-paths=/*")...)
		receive(t, started)
		m.until("/healthz", http.StatusOK, "ok")
		for _, path := range paths {
			status, _ := m.get(path)
			answers[path] = append(answers[path], status)
		}
		if err := m.end(); err != nil {
			t.Error(err)
		}
	}
	for _, path := range paths {
		if a := answers[path]; a[0] != a[1] {
			t.Errorf("%s: upstream answers %d, ours %d", path, a[0], a[1])
		}
	}
	t.Log(answers)
}
