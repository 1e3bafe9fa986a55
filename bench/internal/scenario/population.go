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
	hog   = "hog" // by which first come, first served is known
	batch = "workers"
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
		{name: "equal", members: func(n int, limit float64, _ time.Duration) []fleet.Member {
			return weighted(n, 1, limit, modestDemand)
		}},
		{name: "Pareto", members: paretoMembers},
		{name: "weights", members: func(n int, limit float64, _ time.Duration) []fleet.Member {
			return weighted(n, 3, limit, 1.5)
		}},
		{name: batch, members: workerMembers, waits: true},
		{name: "workers, weights", members: weightedWorkerMembers, waits: true},
		{name: "newcomer, hog", settles: func(i, _ int) bool { return i == 1 },
			// two: one had all before the other came
			members: func(_ int, limit float64, step time.Duration) []fleet.Member {
				members := weighted(2, 1, limit, modestDemand)
				members[0].Rate, members[1].From = 2*limit, step
				return members
			}},
		{name: "gateway, hog", members: hogMembers, gateway: true},
		{name: "newcomer", settles: func(i, n int) bool { return i == n-1 },
			members: func(n int, limit float64, step time.Duration) []fleet.Member {
				members := weighted(n, 1, limit, modestDemand)
				members[n-1].From = step
				return members
			}},
		{name: "leavers", settles: func(i, n int) bool { return i >= n/5 },
			// those who stay want more than there is, too
			members: func(n int, limit float64, step time.Duration) []fleet.Member {
				members := weighted(n, 1, limit, 1.25*modestDemand)
				for i := range n / 5 {
					members[i].To = step
				}
				return members
			}},
		{name: "steady", members: func(n int, limit float64, _ time.Duration) []fleet.Member {
			return evenly(weighted(n, 1, limit, steadyDemand))
		}},
		{name: "weights, steady", members: func(n int, limit float64, _ time.Duration) []fleet.Member {
			return evenly(weighted(n, 3, limit, steadyDemand))
		}},
	}
}

// weighted are n participants with so many weights, of 1, 2 and 4, in turn; each demands so many
// times what its weight entitles it to.
func weighted(n, weights int, limit, demand float64) []fleet.Member {
	members, sum := make([]fleet.Member, n), 0.0
	for i := range members {
		members[i] = fleet.Member{Name: fmt.Sprintf("member-%d", i), Weight: float64(int(1) << (i % weights))}
		sum += members[i].Weight
	}
	for i := range members {
		members[i].Rate = demand * limit * members[i].Weight / sum
	}
	return members
}

// evenly has all of them call at equal distances.
func evenly(members []fleet.Member) []fleet.Member {
	for i := range members {
		members[i].Even = true
	}
	return members
}

func hogMembers(n int, limit float64, _ time.Duration) []fleet.Member {
	members := weighted(n, 1, limit, modestDemand)
	members[0].Rate = hogDemand * limit / float64(n)
	return members
}

// paretoMembers demand what the quantiles of a Pareto distribution are, in an
// order that has nothing to do with their names.
func paretoMembers(n int, limit float64, _ time.Duration) []fleet.Member {
	members := weighted(n, 1, limit, 1)
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

// workerMembers are twenty whose callers wait for their permits. Those of every other one work in
// between, so long that together they want 0.7 of an equal part if each permit comes at
// once; those of the others want the next permit when they have one.
func workerMembers(_ int, limit float64, _ time.Duration) []fleet.Member {
	members, part := weighted(workerCount, 1, 0, 0), limit/workerCount
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
	members := weighted(2, 1, 0, 0)
	members[1].Weight = 3
	for i := range members {
		members[i].Callers = int(limit / perIdler)
	}
	return members
}
