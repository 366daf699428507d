// Package event keeps what happened on this host and why, as Kubernetes' events
// do: a log record that carries a Reason is an event. So what the log says and
// what is shown of events is the same, and is said in one place. The log of
// events is bounded, and never keeps anybody waiting.
package event

// Reason is why there's an event, in a word, as in Kubernetes' events. It's
// given to a logger as the value of an attribute: log.Warn("the kernel ...",
// "reason", event.ProgrammingFailed). The words are part of what users rely on:
// they are searched for.
type Reason string

// The reasons.
const (
	EndpointDown      Reason = "EndpointDown"
	EndpointUp        Reason = "EndpointUp"
	EndpointFlaps     Reason = "EndpointFlaps"
	EndpointDrained   Reason = "EndpointDrained"
	EndpointUndrained Reason = "EndpointUndrained"
	ServedAnyway      Reason = "ServedAnyway"
	EnoughEndpoints   Reason = "EnoughEndpoints"

	ManifestsLoaded Reason = "ManifestsLoaded"
	ManifestRefused Reason = "ManifestRefused"
	ManifestWarning Reason = "ManifestWarning"
	ManifestFixed   Reason = "ManifestFixed"
	LastStateKept   Reason = "LastStateKept"
	ChangeHeld      Reason = "ChangeHeld"
	ChangeApproved  Reason = "ChangeApproved"
	StateNotSaved   Reason = "StateNotSaved"

	DriftRepaired         Reason = "DriftRepaired"
	ProgrammingFailed     Reason = "ProgrammingFailed"
	ProgrammingRecovered  Reason = "ProgrammingRecovered"
	RangeRefused          Reason = "RangeRefused"
	NodePortAddresses     Reason = "NodePortAddresses"
	PortsAtRisk           Reason = "PortsAtRisk"
	HealthCheckPortFailed Reason = "HealthCheckPortFailed"
	UDPFlowsForgotten     Reason = "UDPFlowsForgotten"
	UDPFlowsUnchecked     Reason = "UDPFlowsUnchecked"

	NodeAlive      Reason = "NodeAlive"
	NodeDead       Reason = "NodeDead"
	NodeRemoved    Reason = "NodeRemoved"
	Isolated       Reason = "Isolated"
	Rejoined       Reason = "Rejoined"
	FleetTrouble   Reason = "FleetTrouble"
	KeyringChanged Reason = "KeyringChanged"
	DrainSet       Reason = "DrainSet"
	DrainEnded     Reason = "DrainEnded"
	DrainFileWrong Reason = "DrainFileWrong"

	Started      Reason = "Started"
	Stopped      Reason = "Stopped"
	ListenFailed Reason = "ListenFailed"
	LoopStuck    Reason = "LoopStuck"
)

// Meaning says what a Reason means.
type Meaning struct {
	Reason Reason
	Text   string
}

// Reasons gives all of them with what they mean, the ones that belong together
// side by side.
func Reasons() []Meaning {
	return []Meaning{
		{EndpointDown, "the hosts that probe an endpoint saw it fail: it gets no new connections. The message says who saw what"},
		{EndpointUp, "an endpoint that was out, or new, answers its probes, or nobody says otherwise any more: it's in use"},
		{EndpointFlaps, "an endpoint goes up and down: it stays as it was until it's stable for as long as the message says"},
		{EndpointDrained, "a drain takes an endpoint out of use; `pointsman get drains`"},
		{EndpointUndrained, "no drain does any more"},
		{ServedAnyway, "too few endpoints of a Service would be left, so those that fail are served all the same: look at the backends, or the probe"},
		{EnoughEndpoints, "the same is over"},
		{ManifestsLoaded, "what is served now, and what that changed"},
		{ManifestRefused, "a manifest has errors: its last good version is served, if there is one; `pointsman get problems`"},
		{ManifestWarning, "a manifest means something else than it seems to"},
		{ManifestFixed, "a manifest that was refused has no errors any more, or is gone"},
		{LastStateKept, "the directory can't be read, or has nothing that could be served: what was served stays"},
		{ChangeHeld, "a change would take too much away: it waits for `pointsman approve`"},
		{ChangeApproved, "somebody let it through on this host; the message says what that changed"},
		{StateNotSaved, "the state directory can't be written: after a restart this host would not know its last good manifests"},
		{DriftRepaired, "somebody else changed our rules: they are put right. The message names the process"},
		{ProgrammingFailed, "the kernel or nft refused a transaction: what was served stays, and it's tried again"},
		{ProgrammingRecovered, "it worked after all"},
		{RangeRefused, "a `--service-cidr` or `--local-cidr` would lock somebody out, and is not in force"},
		{NodePortAddresses, "the addresses that NodePorts answer on are others now"},
		{PortsAtRisk, "outgoing connections may be given ports of Services; `pointsman doctor` has the cure"},
		{HealthCheckPortFailed, "a healthCheckNodePort can't be listened on, which is tried again: somebody else has it"},
		{UDPFlowsForgotten, "UDP flows to what isn't served any more were ended"},
		{UDPFlowsUnchecked, "not all UDP flows could be looked at, which is tried again"},
		{NodeAlive, "a host of the fleet is there"},
		{NodeDead, "a host of the fleet doesn't answer any more"},
		{NodeRemoved, "a host is no member any more, since no Node manifest names it"},
		{Isolated, "this host sees too little of the fleet, and judges by its own probes alone"},
		{Rejoined, "it judges with the fleet again"},
		{FleetTrouble, "something between this host and another is wrong: a key, a port, a name; `pointsman get nodes`"},
		{KeyringChanged, "the keyring was read anew"},
		{DrainSet, "somebody drains a node, an endpoint or a Service"},
		{DrainEnded, "a drain has ended, or was taken back"},
		{DrainFileWrong, "a file in the state directory's `maintenance` names no endpoint, or the directory can't be read: the drains of its files stay"},
		{Started, "the agent started"},
		{Stopped, "the agent stopped, and left the rules in place"},
		{ListenFailed, "an address of the agent can't be listened on, which is tried again"},
		{LoopStuck, "the reconcile loop doesn't move: the watchdog restarts the agent"},
	}
}
