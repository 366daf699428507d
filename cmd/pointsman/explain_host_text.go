package main

import (
	"fmt"
	"slices"
	"strings"

	"pointsman/reconcile/doctor"
)

// but is what of the host belongs into the conclusion: what is for certain in the
// way of the first kind of clients, else what may be.
func (a *hostAnswer) but() string {
	if a == nil {
		return ""
	}
	var what []string
	sure := !a.passes()
	for _, o := range a.Findings {
		if o.Certain == sure && o.Level != doctor.Note && slices.Contains(o.For, a.Clients[0]) {
			what = append(what, o.What)
		}
	}
	switch {
	case what == nil:
		return ""
	case len(what) > 1:
		what[0] += fmt.Sprintf(" (and %d more, see host)", len(what)-1)
	}
	if sure {
		return "; but " + what[0]
	}
	return "; what may keep it from arriving: " + what[0]
}

// host shows the routes, and what of the host is in the way.
func (p *walk) host(a *hostAnswer) {
	if a == nil {
		return
	}
	title := "route"
	for _, text := range routeTexts(a.Routes) {
		p.wrapped(title, text)
		title = ""
	}
	if a.Unexamined > 0 {
		p.wrapped(title, fmt.Sprintf("%d more endpoints were not looked at, those with the highest addresses", a.Unexamined))
	}
	title = "host"
	for i := range a.Findings {
		p.obstacle(title, &a.Findings[i], len(a.Clients))
		title = ""
	}
	for _, u := range a.Unread {
		p.wrapped(title, "could not be read: "+u)
		title = ""
	}
	if title != "" {
		p.line(title, "nothing here is known to be in the way")
	}
}

// obstacle shows a finding as doctor does.
func (p *walk) obstacle(title string, o *doctor.Obstacle, kinds int) {
	level, what := string(o.Level), o.What
	if len(o.For) < kinds {
		what = clientText(o.For[0]) + ": " + what
	}
	if o.Certain {
		level = p.in(inRed, level)
	}
	for i, line := range wrap(what, pageWidth-marginWidth-len(indent)) {
		head := indent
		if i == 0 {
			head = level + indent[len(o.Level):]
		}
		p.line(title, "%s%s", head, line)
		title = ""
	}
	for _, line := range wrap(o.Means, pageWidth-marginWidth-len(indent)) {
		p.line("", "%s%s", indent, line)
	}
	for _, line := range o.Fix {
		p.line("", "%s    %s", indent, line)
	}
}

// indent is the room for the longest level.
const indent = "         "

// routeTexts writes routes, those that are alike as one. That to the frontend
// goes without saying where there is one.
func routeTexts(routes []routeAnswer) []string {
	var texts []string
	to := map[string][]string{}
	for i := range routes {
		r := &routes[i]
		text := r.text()
		if r.Of == ofFrontend {
			continue
		}
		if to[text] == nil {
			texts = append(texts, text)
		}
		if a := r.To.String(); !slices.Contains(to[text], a) { // a client may be an endpoint, too
			to[text] = append(to[text], a)
		}
	}
	for i, text := range texts {
		all := to[text]
		if n := len(all) - maxRoutes; n > 1 {
			all = append(all[:maxRoutes:maxRoutes], fmt.Sprintf("%d more", n))
		}
		texts[i] = strings.Replace(text, addressMark, strings.Join(all, ", "), 1)
	}
	return texts
}

// maxRoutes bounds the addresses of one route that are shown.
const maxRoutes = 8

// addressMark is where a text has the address.
const addressMark = "\x00"

func (r *routeAnswer) text() string {
	text := "to " + addressMark + ": "
	if r.Of == ofClient {
		text = "back " + text
	}
	switch {
	case r.Refusal != "":
		return text + string(r.Refusal)
	case r.Local:
		return text + "on this host itself"
	}
	text += "by " + r.Link
	if r.Gateway.IsValid() {
		text += ", via " + r.Gateway.String()
	}
	if r.NoCarrier {
		text += ", which has no carrier"
	}
	if r.Neighbour != "" {
		text += ", where nobody answers (neighbour " + string(r.Neighbour) + ")"
	}
	return text
}
