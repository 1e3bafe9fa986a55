package scenario

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
)

// population is a way for participants to want different things of one limit.
type population struct {
	name    string
	gateway bool // all in one process, over one client
	waits   bool // every member has callers that wait for their permits
	// members are n participants of a limit of so many permits a second. Those that
	// come or go do it at step.
	members func(n int, limit float64, step time.Duration) []fleet.Member
	// settles says whose arrival at what they are entitled to after step is waited
	// for; nil: nothing changes.
	settles func(i, n int) bool
}

// Names of populations with which more is done than with others.
const (
	hog           = "hog" // by which first come, first served is known
	batch         = "workers"
	weightedBatch = "workers, weights"
)

const (
	modestDemand = 1.2 // of an equal part of the limit
	hogDemand    = 50
	paretoShape  = 1.1
	paretoDemand = 2.0 // of the limit, by all
	steadyDemand = 3   // of what each is entitled to: nobody is ever near its part
	workDemand   = 0.7 // of an equal part, by those whose callers work in between
	workerCount  = 20
	perCaller    = 20  // permits a second of an equal part for each caller that waits
	perIdler     = 100 // permits a second of the limit for each caller of two that never work
)

// populations are in the order in which they are measured: what tells most comes first.
func populations() []population {
	return []population{
		{name: hog, members: hogMembers},
		{name: "equal", members: equalMembers},
		{name: "Pareto", members: paretoMembers},
		{name: "weights", members: weightedMembers},
		{name: batch, members: workerMembers, waits: true},
		{name: weightedBatch, members: weightedWorkerMembers, waits: true},
		{name: "newcomer, hog", members: newcomerToHogMembers, settles: func(i, _ int) bool { return i == 1 }},
		{name: "gateway, hog", members: hogMembers, gateway: true},
		{name: "newcomer", members: newcomerMembers, settles: theLast},
		{name: "leavers", members: leaverMembers, settles: func(i, n int) bool { return i >= leavers(n) }},
		{name: "steady", members: steadyMembers},
		{name: "weights, steady", members: steadyWeightedMembers},
	}
}

func populationNames() (names []string) {
	for _, p := range populations() {
		names = append(names, p.name)
	}
	return names
}

func theLast(i, n int) bool { return i == n-1 }

// equals are n participants that each demand so many times an equal part.
func equals(n int, limit, demand float64) []fleet.Member {
	members := make([]fleet.Member, n)
	for i := range members {
		members[i] = fleet.Member{Name: fmt.Sprintf("member-%d", i), Weight: 1, Rate: demand * limit / float64(n)}
	}
	return members
}

func equalMembers(n int, limit float64, _ time.Duration) []fleet.Member {
	return equals(n, limit, modestDemand)
}

// paretoMembers demand what the quantiles of a Pareto distribution are, in an
// order that has nothing to do with their names.
func paretoMembers(n int, limit float64, _ time.Duration) []fleet.Member {
	members := equals(n, limit, 1)
	random := rand.New(rand.NewPCG(1, 0))
	var sum float64
	for k, i := range random.Perm(n) {
		members[i].Rate = math.Pow(1-(float64(k)+0.5)/float64(n), -1/paretoShape)
		sum += members[i].Rate
	}
	for i := range members {
		members[i].Rate *= paretoDemand * limit / sum
	}
	return members
}

func hogMembers(n int, limit float64, _ time.Duration) []fleet.Member {
	members := equals(n, limit, modestDemand)
	members[0].Rate = hogDemand * limit / float64(n)
	return members
}

// weightedMembers demand half as much again as their weights entitle them to.
func weightedMembers(n int, limit float64, _ time.Duration) []fleet.Member {
	return weighted(n, limit, 1.5)
}

// weighted are n participants with the weights 1, 2 and 4 in turn; each demands so many
// times what its weight entitles it to.
func weighted(n int, limit, demand float64) []fleet.Member {
	members := equals(n, limit, 1)
	var sum float64
	for i := range members {
		members[i].Weight = float64(int(1) << (i % 3))
		sum += members[i].Weight
	}
	for i := range members {
		members[i].Rate = demand * limit * members[i].Weight / sum
	}
	return members
}

// workerMembers are twenty whose callers wait for their permits. Those of every other one work in
// between, so long that together they want 0.7 of an equal part if each permit comes at
// once; those of the others want the next permit when they have one.
func workerMembers(_ int, limit float64, _ time.Duration) []fleet.Member {
	members := equals(workerCount, limit, 0)
	part := limit / workerCount
	for i := range members {
		members[i].Callers = int(part / perCaller)
		if i%2 == 1 {
			members[i].Work = time.Duration(float64(members[i].Callers) / (workDemand * part) * float64(time.Second))
		}
	}
	return members
}

// weightedWorkerMembers are two with the weights 1 and 3 and as many callers, who want
// the next permit when they have one: each member wants all there is.
func weightedWorkerMembers(_ int, limit float64, _ time.Duration) []fleet.Member {
	members := equals(2, limit, 0)
	members[1].Weight = 3
	for i := range members {
		members[i].Callers = int(limit / perIdler)
	}
	return members
}

func newcomerMembers(n int, limit float64, step time.Duration) []fleet.Member {
	members := equals(n, limit, modestDemand)
	members[n-1].From = step
	return members
}

// newcomerToHogMembers are two: one that has taken everything until the other comes.
func newcomerToHogMembers(_ int, limit float64, step time.Duration) []fleet.Member {
	members := equals(2, limit, modestDemand)
	members[0].Rate = 2 * limit
	members[1].From = step
	return members
}

// leavers is how many leave: a fifth.
func leavers(n int) int { return n / 5 }

// leaverMembers all want more than they would get even after some have left.
func leaverMembers(n int, limit float64, step time.Duration) []fleet.Member {
	members := equals(n, limit, 1.25*modestDemand)
	for i := range leavers(n) {
		members[i].To = step
	}
	return members
}

func steadyMembers(n int, limit float64, _ time.Duration) []fleet.Member {
	return evenly(equals(n, limit, steadyDemand))
}

func steadyWeightedMembers(n int, limit float64, _ time.Duration) []fleet.Member {
	return evenly(weighted(n, limit, steadyDemand))
}

// evenly has all of them call at equal distances.
func evenly(members []fleet.Member) []fleet.Member {
	for i := range members {
		members[i].Even = true
	}
	return members
}
