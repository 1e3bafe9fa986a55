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
	name string
	// members are n participants of a limit of so many permits a second. Those that come later do
	// it at step.
	members func(n int, limit float64, step time.Duration) []fleet.Member
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
	perCaller    = 20 // permits a second of an equal part for each caller that waits
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
		{name: batch, members: workerMembers},
		{name: "newcomer", members: func(n int, limit float64, step time.Duration) []fleet.Member {
			members := weighted(n, 1, limit, modestDemand)
			members[n-1].From = step
			return members
		}},
		{name: "steady", members: func(n int, limit float64, _ time.Duration) []fleet.Member {
			members := weighted(n, 1, limit, steadyDemand)
			for i := range members {
				members[i].Even = true
			}
			return members
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
