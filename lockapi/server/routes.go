package server

import (
	"cmp"
	"net/http"
	"regexp"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// route is one operation of the API. Its template is the path as
// openapi.in.yaml and the metrics' labels spell it; pattern is the router's
// spelling, from which it follows. A route without a pattern handles all
// unknown paths.
type route struct {
	method, template, pattern string
	handle                    func(*exchange) error
	params                    []param      // of the query; others are refused
	asks                      master.Right // right that the caller needs while access control is on
	local                     bool         // any replica answers it itself
	peers                     bool         // a member may send it on its own behalf
	body                      int64        // longest body; 0 means lockapi.MaxBodyBytes
	door                      bool         // it is one of the door for Consul's clients
	guest                     bool         // on a spare connection: it needs another call's place
	audits                    master.Audit // which calls the audit log gets, in addition to denials
}

type table []route

const (
	patternSession   = lockapi.RouteSessions + "/:id"
	patternKeepalive = patternSession + "/keepalive"
	patternLock      = lockapi.RouteLocks + "/*path"
	patternFile      = lockapi.RouteFiles + "/*path"
	patternMember    = lockapi.RouteMembers + "/:id"
	patternRule      = lockapi.RouteRules + "/*path"
	patternGroup     = lockapi.RouteGroups + "/:name"
	patternQuota     = lockapi.RouteQuotas + "/*principal"
	patternToken     = lockapi.RouteTokens + "/:id"
)

// routes lists all operations in the order of the contract.
var routes = table{
	serves[lockapi.OpenSession](http.MethodPost, lockapi.RouteSessions, http.StatusCreated),
	serves[lockapi.ListSessions](http.MethodGet, lockapi.RouteSessions, http.StatusOK),
	serves(http.MethodPost, patternKeepalive, http.StatusOK, plan[lockapi.KeepAlive]{before: hurryOne}),
	serves(http.MethodPost, lockapi.RouteKeepalives, http.StatusOK, plan[lockapi.KeepAliveAll]{before: hurryAll, reply: keptAll}),
	serves[lockapi.GetSession](http.MethodGet, patternSession, http.StatusOK),
	serves[lockapi.CloseSession](http.MethodDelete, patternSession, http.StatusNoContent),
	serves[lockapi.ListLocks](http.MethodGet, lockapi.RouteLocks, http.StatusOK),
	serves(http.MethodPut, patternLock, 0, plan[lockapi.AcquireLock]{reply: granted}),
	serves[lockapi.GetLock](http.MethodGet, patternLock, http.StatusOK),
	serves[lockapi.ReleaseLock](http.MethodDelete, patternLock, http.StatusOK),
	serves[lockapi.CheckSequencer](http.MethodGet, lockapi.RouteSequencers, http.StatusOK),
	serves(http.MethodGet, lockapi.RouteFiles, http.StatusOK, plan[lockapi.ListFiles]{before: refuseIfMatch}),
	serves(http.MethodDelete, lockapi.RouteFiles, 0, plan[lockapi.DeleteFiles]{decode: decodeDeleteBelow, reply: deleted,
		params: []param{paramBelow, paramOnBehalf, paramSequencer}}),
	serves(http.MethodPut, patternFile, 0, plan[lockapi.WriteFile]{decode: decodePut, reply: written, body: lockapi.MaxFileBytes,
		params: []param{paramOnBehalf, paramEphemeral, paramSequencer, paramAs, paramContent}}),
	serves(http.MethodPost, patternFile, 0, plan[lockapi.WriteFile]{decode: decodeSequential, reply: written, body: lockapi.MaxFileBytes,
		params: []param{paramOnBehalf, paramEphemeral, paramSequencer}}),
	serves(http.MethodGet, patternFile, 0, plan[lockapi.GetFile]{decode: decodeGet, reply: shown, params: []param{paramAs}}),
	serves(http.MethodDelete, patternFile, 0, plan[lockapi.DeleteFiles]{decode: decodeDelete, reply: deleted,
		params: []param{paramOnBehalf, paramSequencer}}),
	serves(http.MethodPost, lockapi.RouteTransactions, 0, plan[lockapi.Transact]{decode: decodeTransaction, reply: transacted,
		body: lockapi.MaxTransactionBytes}),
	{method: http.MethodGet, template: lockapi.RouteEvents, pattern: lockapi.RouteEvents, asks: master.KnownCaller, local: true, peers: true, handle: readEvents,
		params: []param{paramAfter, paramPaths, paramPrefixes, paramTypes, paramContent, paramWaitMS, paramLimit}},
	serves(http.MethodGet, lockapi.RouteHistory, 0, plan[lockapi.GetHistory]{reply: past}),
	serves[lockapi.FindDeadlocks](http.MethodGet, lockapi.RouteDeadlocks, http.StatusOK),
	own(lockapi.RouteCell, master.Observe, readCell),
	serves[lockapi.GetURLs](http.MethodGet, lockapi.RouteURLs, http.StatusOK),
	serves[lockapi.TransferMastership](http.MethodPost, lockapi.RouteTransfer, http.StatusOK),
	handled[lockapi.GetBackup](http.MethodGet, lockapi.RouteBackup, readBackup),
	{method: http.MethodGet, template: lockapi.RouteReplica, pattern: lockapi.RouteReplica, asks: master.Observe, local: true, peers: true, handle: readReplica},
	serves[lockapi.ListMembers](http.MethodGet, lockapi.RouteMembers, http.StatusOK),
	serves[lockapi.AddMember](http.MethodPost, lockapi.RouteMembers, http.StatusAccepted),
	serves[lockapi.SetMember](http.MethodPatch, patternMember, http.StatusOK),
	serves(http.MethodDelete, patternMember, http.StatusOK, plan[lockapi.RemoveMember]{before: checkDirectory}),
	serves[lockapi.ReplaceMember](http.MethodPost, patternMember+"/replace", http.StatusAccepted),
	{method: http.MethodGet, template: lockapi.RouteJoin, pattern: lockapi.RouteJoin, asks: master.Nothing, local: true, audits: master.AuditAlways, handle: answerJoin,
		params: []param{paramCell}},
	serves[lockapi.PutRule](http.MethodPut, patternRule, http.StatusOK),
	serves[lockapi.GetRule](http.MethodGet, patternRule, http.StatusOK),
	serves[lockapi.DeleteRule](http.MethodDelete, patternRule, http.StatusNoContent),
	serves[lockapi.ListRules](http.MethodGet, lockapi.RouteRules, http.StatusOK),
	serves[lockapi.DeleteRulesBelow](http.MethodDelete, lockapi.RouteRules, http.StatusOK),
	serves[lockapi.CheckAccess](http.MethodGet, lockapi.RouteCheck, http.StatusOK),
	serves[lockapi.PutGroup](http.MethodPut, patternGroup, http.StatusOK),
	serves[lockapi.GetGroup](http.MethodGet, patternGroup, http.StatusOK),
	serves[lockapi.DeleteGroup](http.MethodDelete, patternGroup, http.StatusNoContent),
	serves[lockapi.ListGroups](http.MethodGet, lockapi.RouteGroups, http.StatusOK),
	serves[lockapi.PutQuota](http.MethodPut, patternQuota, http.StatusOK),
	serves[lockapi.GetQuota](http.MethodGet, patternQuota, http.StatusOK),
	serves[lockapi.DeleteQuota](http.MethodDelete, patternQuota, http.StatusNoContent),
	serves[lockapi.ListQuotas](http.MethodGet, lockapi.RouteQuotas, http.StatusOK),
	serves[lockapi.PutCellAccess](http.MethodPut, lockapi.RouteCellAccess, http.StatusOK),
	serves[lockapi.GetCellAccess](http.MethodGet, lockapi.RouteCellAccess, http.StatusOK),
	serves(http.MethodPost, lockapi.RouteTokens, http.StatusCreated, plan[lockapi.CreateToken]{before: forToken}),
	serves[lockapi.ListTokens](http.MethodGet, lockapi.RouteTokens, http.StatusOK),
	serves[lockapi.RevokeToken](http.MethodDelete, patternToken, http.StatusNoContent),
	serves(http.MethodPost, lockapi.RouteEnable, http.StatusCreated, plan[lockapi.EnableAccess]{before: mayEnable}),
	serves[lockapi.DisableAccess](http.MethodPost, lockapi.RouteDisable, http.StatusNoContent),
	serves[lockapi.GetWhoAmI](http.MethodGet, lockapi.RouteWhoAmI, http.StatusOK),
	own(lockapi.RouteOpenAPI, master.Nothing, readOpenAPI),
	own(lockapi.RouteLive, master.Nothing, live),
	own(lockapi.RouteReady, master.Nothing, ready),
	own("/", master.Nothing, readRoot),
	own("/ui", master.Nothing, readPageBare),
	own(lockapi.RoutePage+"*file", master.Nothing, readPage),
	own(lockapi.RouteMetrics, master.Observe, readMetrics),
}

// own returns a route that every replica serves itself.
func own(pattern string, asks master.Right, handle func(*exchange) error) route {
	return route{method: http.MethodGet, template: templateOf(pattern), pattern: pattern, asks: asks, local: true, handle: handle}
}

// templateOf returns the template of a pattern: /v1/locks/{path} for
// /v1/locks/*path.
func templateOf(pattern string) string { return variable.ReplaceAllString(pattern, "{$1}") }

var variable = regexp.MustCompile(`[:*](\w+)`)

func (r *route) maxBody() int64 { return cmp.Or(r.body, lockapi.MaxBodyBytes) }

// maxBody bounds the body of a request before it is routed: the longest body of
// any route that may match.
func (t table) maxBody(r *http.Request) int64 {
	most := int64(lockapi.MaxBodyBytes)
	for i := range t {
		of := &t[i]
		if of.body > most && of.method == r.Method && strings.HasPrefix(r.URL.EscapedPath(), of.fixed()) {
			most = of.body
		}
	}
	return most
}

func (r *route) fixed() string {
	if i := strings.IndexAny(r.pattern, ":*"); i >= 0 {
		return r.pattern[:i]
	}
	return r.pattern
}

// engineOf returns a router for the given routes; otherwise handles all other
// paths.
func (s *Server) engineOf(peer bool, routes table, otherwise func(*exchange) error) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.UseRawPath = true
	e.UnescapePathValues = false
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	for _, r := range routes {
		if peer && r.peers || r.template == lockapi.RouteMetrics && s.opts.PublicMetrics {
			r.asks = master.Nothing
		}
		h := s.handler(r, peer)
		e.Handle(r.method, r.pattern, h)
		if r.method == http.MethodGet {
			// The connection drops the body of a reply to HEAD.
			e.Handle(http.MethodHead, r.pattern, h)
		}
	}
	door, noMethod := routes[0].door, errNoMethod
	if door {
		noMethod = otherwise
	}
	e.NoRoute(s.handler(route{template: "other", asks: master.Nothing, handle: otherwise, door: door}, peer))
	e.NoMethod(s.handler(route{template: "other", asks: master.Nothing, handle: noMethod, door: door}, peer))
	return e
}

func errNoRoute(x *exchange) error {
	return lockapi.Errorf(lockapi.CodeNotFound, "the route %s does not exist; %s lists the routes", x.path(), lockapi.RouteOpenAPI)
}

func errNoMethod(x *exchange) error {
	return lockapi.Errorf(lockapi.CodeMethodNotAllowed, "%s supports %s, not %.32q",
		x.path(), x.c.Writer.Header().Get("Allow"), x.c.Request.Method)
}
