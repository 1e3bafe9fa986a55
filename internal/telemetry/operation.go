package telemetry

// Operation is what a script call is for. Metrics and spans call it by its name.
type Operation uint8

// The operations.
const (
	Take Operation = iota
	Propose
	Reserve
	Peek
	Probe // whether a node answers again
	Settle
	Clear
	Drop
	Participants
	Locate // where the records are
	Vote   // of a place of a record
	operations
)

var operationNames = [operations]string{
	"take", "propose", "reserve", "peek", "probe", "settle", "clear", "drop", "participants",
	"locate", "vote",
}

func (o Operation) String() string { return operationNames[o] }

// Rare reports whether what fails of it tells nothing of takes: a user of the server may lack the
// right to it alone.
func (o Operation) Rare() bool {
	return o == Settle || o == Clear || o == Drop || o == Participants
}

// Outcome is how a decision ended.
type Outcome uint8

// The outcomes.
const (
	Allowed Outcome = iota
	Denied
	Failed
	Degraded
	Shadowed
	Canceled // by the caller, so it says nothing of nodes
	Shed     // this process had too many
	outcomes
)

func (o Outcome) String() string {
	return [...]string{"allowed", "denied", "error", "degraded", "shadowed", "canceled", "shed"}[o]
}

// Source is where a decision was made.
type Source uint8

// The sources.
const (
	Redis  Source = iota // a script call
	Memory               // this process knew that nothing was free
	Lease                // permits that this process held
	Local                // the outage policy
	sources
)

func (s Source) String() string { return [...]string{"redis", "memory", "lease", "local"}[s] }

// Reason is why a call was denied. Where several hold, the greatest one is told.
type Reason uint8

// The reasons; 0: it was not denied.
const (
	Full          Reason = iota + 1
	Owes                 // permits that were booked ahead, or charged beyond what was free
	Outage               // nodes do not answer
	LostMemory           // a shard is in quarantine
	HeldForOthers        // what is free is kept for other participants
	Late                 // this process could not ask in time
	Closed               // by the mode of the limit
	reasons
)

func (r Reason) String() string {
	return [...]string{"", "full", "owes", "outage", "lost_memory", "held_for_others", "late", "closed"}[r]
}
