// Package gossip makes one fleet of the hosts: who is a member and alive, what
// each host's probes saw, and which targets are drained. All hosts come to hold
// the same three, without a server.
//
// hashicorp/memberlist (SWIM with Lifeguard) finds the members, notices their
// death and carries messages. What the messages say is this package's own:
//
//   - A record is what one observer does not call up. Only the observer writes
//     it. It is split by key prefix into buckets that fit one packet; each is
//     sent whole, under a version that only grows, so messages may be lost, come
//     twice or in any order (buckets.go).
//   - A header tells what record and observer have in common: the generation of
//     the manifests it was made against, and what the member shows (header.go).
//   - A drain is an entry of the one map that any member may write (drains.go).
//     It ends by the clock in the middle of the members' (clock.go).
//
// Each of them is a message that a member which learns it passes on, unchanged.
// What gossip loses is fetched: a hash of all that a member holds rides in every
// ping's answer, and two that differ for a second compare notes (exchange.go).
//
// Everything that comes from the network is bounded in size, number and rate.
package gossip
