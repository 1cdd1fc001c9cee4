package server

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// route is one operation of the API. Its template is the path as openapi.yaml
// writes it and metrics label it; pattern is the router's spelling. What has no
// pattern stands for all paths that are none.
type route struct {
	method, template, pattern string
	handle                    func(*exchange) error
	params                    []param      // of the query; others are refused
	asks                      master.Right // for what its caller has to have while access is on
	local                     bool         // this replica answers, whoever is master
	peers                     bool         // a member asks another one so on its own behalf
	body                      int64        // the longest that it takes; 0 is lockapi.MaxBodyBytes
	guest                     bool         // it came by a spare connection, and needs the place of another
	audits                    audited      // which of its calls the audit log has, besides those that are denied
}

// table is the operations that a router knows.
type table []route

const (
	routeSession   = lockapi.RouteSessions + "/{id}"
	routeKeepalive = routeSession + "/keepalive"
	routeMember    = lockapi.RouteMembers + "/{id}"
	patternMember  = lockapi.RouteMembers + "/:id"
	routeReplace   = lockapi.RouteMembers + "/{id}/replace"
	patternReplace = lockapi.RouteMembers + "/:id/replace"
	routeLock      = lockapi.RouteLocks + "/{path}"
	patternSession = lockapi.RouteSessions + "/:id"
	patternLock    = lockapi.RouteLocks + "/*path"
	routeFile      = lockapi.RouteFiles + "/{path}"
	patternFile    = lockapi.RouteFiles + "/*path"
	routeRule      = lockapi.RouteRules + "/{path}"
	patternRule    = lockapi.RouteRules + "/*path"
	routeGroup     = lockapi.RouteGroups + "/{name}"
	patternGroup   = lockapi.RouteGroups + "/:name"
	routeToken     = lockapi.RouteTokens + "/{id}"
	patternToken   = lockapi.RouteTokens + "/:id"
	routePageBare  = "/ui"
	routePage      = lockapi.RoutePage + "{file}"
	patternPage    = lockapi.RoutePage + "*file"
)

// routes are all operations, in the order of the contract.
var routes = table{
	{method: http.MethodPost, template: lockapi.RouteSessions, pattern: lockapi.RouteSessions, asks: master.Known, audits: ifChanges, handle: openSession},
	{method: http.MethodGet, template: lockapi.RouteSessions, pattern: lockapi.RouteSessions, asks: master.Observe, handle: listSessions,
		params: []param{paramAfter, paramLimit, paramConsistency}},
	{method: http.MethodPost, template: routeKeepalive, pattern: patternSession + "/keepalive", asks: master.Nobody, handle: keepalive},
	{method: http.MethodGet, template: routeSession, pattern: patternSession, asks: master.Observe, handle: readSession,
		params: []param{paramConsistency}},
	{method: http.MethodDelete, template: routeSession, pattern: patternSession, asks: master.Operate, audits: ifOthers, handle: closeSession},
	{method: http.MethodGet, template: lockapi.RouteLocks, pattern: lockapi.RouteLocks, asks: master.Reader, handle: listLocks,
		params: []param{paramPrefix, paramAfter, paramLimit, paramConsistency}},
	{method: http.MethodPut, template: routeLock, pattern: patternLock, asks: master.LockAt, audits: ifChanges, handle: acquire},
	{method: http.MethodGet, template: routeLock, pattern: patternLock, asks: master.ReadAt, handle: readLock,
		params: []param{paramWaiters, paramConsistency}},
	{method: http.MethodDelete, template: routeLock, pattern: patternLock, asks: master.AdminAt, audits: ifOthers, handle: release,
		params: []param{paramSession, paramHandle, paramToken, paramByForce}},
	{method: http.MethodGet, template: lockapi.RouteSequencers, pattern: lockapi.RouteSequencers, asks: master.ReadAt, handle: checkSequencer,
		params: []param{paramValue, paramConsistency}},
	{method: http.MethodGet, template: lockapi.RouteFiles, pattern: lockapi.RouteFiles, asks: master.Reader, handle: listFiles,
		params: []param{paramPrefix, paramDelimiter, paramContent, paramAfter, paramLimit, paramConsistency}},
	{method: http.MethodDelete, template: lockapi.RouteFiles, pattern: lockapi.RouteFiles, asks: master.WriteBelow, audits: ifChanges, handle: deleteFilesBelow,
		params: []param{paramBelow, paramOnBehalf, paramSequencer}},
	{method: http.MethodPut, template: routeFile, pattern: patternFile, asks: master.WriteAt, audits: ifChanges, handle: putFile, body: lockapi.MaxFileBytes,
		params: []param{paramOnBehalf, paramEphemeral, paramSequencer, paramAs, paramContent}},
	{method: http.MethodPost, template: routeFile, pattern: patternFile, asks: master.NameAt, audits: ifChanges, handle: createSequential, body: lockapi.MaxFileBytes,
		params: []param{paramOnBehalf, paramEphemeral, paramSequencer}},
	{method: http.MethodGet, template: routeFile, pattern: patternFile, asks: master.ReadAt, handle: readFile,
		params: []param{paramAs, paramConsistency}},
	{method: http.MethodDelete, template: routeFile, pattern: patternFile, asks: master.WriteAt, audits: ifChanges, handle: deleteFile,
		params: []param{paramOnBehalf, paramSequencer}},
	{method: http.MethodPost, template: lockapi.RouteTransactions, pattern: lockapi.RouteTransactions, asks: inRequest, audits: ifChanges, handle: transact, body: lockapi.MaxTransactionBytes},
	{method: http.MethodGet, template: lockapi.RouteEvents, pattern: lockapi.RouteEvents, asks: master.Somebody, local: true, peers: true, handle: readEvents,
		params: []param{paramAfter, paramPaths, paramPrefixes, paramTypes, paramContent, paramWaitMS, paramLimit}},
	{method: http.MethodGet, template: lockapi.RouteHistory, pattern: lockapi.RouteHistory, asks: master.ReadAt, handle: readHistory,
		params: []param{paramPastOf, paramLimit}},
	{method: http.MethodGet, template: lockapi.RouteDeadlocks, pattern: lockapi.RouteDeadlocks, asks: master.Reader, handle: readDeadlocks,
		params: []param{paramConsistency}},
	{method: http.MethodGet, template: lockapi.RouteCell, pattern: lockapi.RouteCell, asks: master.Observe, local: true, handle: readCell},
	{method: http.MethodGet, template: lockapi.RouteURLs, pattern: lockapi.RouteURLs, asks: master.Known, handle: listURLs,
		params: []param{paramConsistency}},
	{method: http.MethodPost, template: lockapi.RouteTransfer, pattern: lockapi.RouteTransfer, asks: master.Operate, audits: always, handle: transfer},
	{method: http.MethodGet, template: lockapi.RouteBackup, pattern: lockapi.RouteBackup, asks: master.Operate, audits: always, handle: readBackup},
	{method: http.MethodGet, template: lockapi.RouteReplica, pattern: lockapi.RouteReplica, asks: master.Observe, local: true, peers: true, handle: readReplica},
	{method: http.MethodGet, template: lockapi.RouteMembers, pattern: lockapi.RouteMembers, asks: master.Observe, handle: listMembers,
		params: []param{paramConsistency}},
	{method: http.MethodPost, template: lockapi.RouteMembers, pattern: lockapi.RouteMembers, asks: master.Operate, audits: always, handle: addMember},
	{method: http.MethodPatch, template: routeMember, pattern: patternMember, asks: master.Operate, audits: always, handle: setMember,
		params: []param{paramForce}},
	{method: http.MethodDelete, template: routeMember, pattern: patternMember, asks: master.Operate, audits: always, handle: removeMember,
		params: []param{paramForce, paramDirectory}},
	{method: http.MethodGet, template: lockapi.RouteJoin, pattern: lockapi.RouteJoin, asks: master.Nothing, local: true, audits: always, handle: tellJoiner,
		params: []param{paramCell}},
	{method: http.MethodPost, template: routeReplace, pattern: patternReplace, asks: master.Operate, audits: always, handle: replaceMember,
		params: []param{paramForce}},
	{method: http.MethodPut, template: routeRule, pattern: patternRule, asks: master.AdminAt, audits: always, handle: putRule},
	{method: http.MethodGet, template: routeRule, pattern: patternRule, asks: master.AdminAt, handle: readRule,
		params: []param{paramConsistency}},
	{method: http.MethodDelete, template: routeRule, pattern: patternRule, asks: master.AdminAt, audits: always, handle: deleteRule},
	{method: http.MethodGet, template: lockapi.RouteRules, pattern: lockapi.RouteRules, asks: master.Known, handle: listRules,
		params: []param{paramPrefix, paramAfter, paramLimit, paramConsistency}},
	{method: http.MethodDelete, template: lockapi.RouteRules, pattern: lockapi.RouteRules, asks: master.AdminBelow, audits: always, handle: deleteRulesBelow,
		params: []param{paramRulesBelow}},
	{method: http.MethodGet, template: lockapi.RouteCheck, pattern: lockapi.RouteCheck, asks: master.Reader, handle: checkAccess,
		params: []param{paramAccessPath, paramPrincipal, paramConsistency}},
	{method: http.MethodPut, template: routeGroup, pattern: patternGroup, asks: master.Operate, audits: always, handle: putGroup},
	{method: http.MethodGet, template: routeGroup, pattern: patternGroup, asks: master.Operate, handle: readGroup,
		params: []param{paramConsistency}},
	{method: http.MethodDelete, template: routeGroup, pattern: patternGroup, asks: master.Operate, audits: always, handle: deleteGroup},
	{method: http.MethodGet, template: lockapi.RouteGroups, pattern: lockapi.RouteGroups, asks: master.Operate, handle: listGroups,
		params: []param{paramAfter, paramConsistency}},
	{method: http.MethodPut, template: lockapi.RouteCellAccess, pattern: lockapi.RouteCellAccess, asks: master.Operate, audits: always, handle: putCellAccess},
	{method: http.MethodGet, template: lockapi.RouteCellAccess, pattern: lockapi.RouteCellAccess, asks: master.Operate, handle: readCellAccess,
		params: []param{paramConsistency}},
	{method: http.MethodPost, template: lockapi.RouteTokens, pattern: lockapi.RouteTokens, asks: master.Operate, audits: always, handle: createToken},
	{method: http.MethodGet, template: lockapi.RouteTokens, pattern: lockapi.RouteTokens, asks: master.Operate, handle: listTokens,
		params: []param{paramAfter, paramLimit, paramConsistency}},
	{method: http.MethodDelete, template: routeToken, pattern: patternToken, asks: master.Operate, audits: always, handle: revokeToken},
	{method: http.MethodPost, template: lockapi.RouteEnable, pattern: lockapi.RouteEnable, asks: master.Operate, audits: always, handle: enableAccess},
	{method: http.MethodPost, template: lockapi.RouteDisable, pattern: lockapi.RouteDisable, asks: master.Operate, audits: always, handle: disableAccess},
	{method: http.MethodGet, template: lockapi.RouteWhoAmI, pattern: lockapi.RouteWhoAmI, asks: master.Anybody, handle: whoAmI,
		params: []param{paramRights, paramConsistency}},
	{method: http.MethodGet, template: lockapi.RouteOpenAPI, pattern: lockapi.RouteOpenAPI, asks: master.Nothing, local: true, handle: readOpenAPI},
	{method: http.MethodGet, template: lockapi.RouteLive, pattern: lockapi.RouteLive, asks: master.Nothing, local: true, handle: live},
	{method: http.MethodGet, template: lockapi.RouteReady, pattern: lockapi.RouteReady, asks: master.Nothing, local: true, handle: ready},
	{method: http.MethodGet, template: "/", pattern: "/", asks: master.Nothing, local: true, handle: readRoot},
	{method: http.MethodGet, template: routePageBare, pattern: routePageBare, asks: master.Nothing, local: true, handle: readPageBare},
	{method: http.MethodGet, template: routePage, pattern: patternPage, asks: master.Nothing, local: true, handle: readPage},
	{method: http.MethodGet, template: lockapi.RouteMetrics, pattern: lockapi.RouteMetrics, asks: master.Observe, local: true, handle: readMetrics},
}

// maxBody is the longest body that the route takes.
func (r *route) maxBody() int64 { return cmp.Or(r.body, lockapi.MaxBodyBytes) }

// maxBody is the longest body of a request that is read at all, before the
// router has seen it: that of any route that it may be for.
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

// fixed is the part of the pattern before its first variable.
func (r *route) fixed() string {
	if i := strings.IndexAny(r.pattern, ":*"); i >= 0 {
		return r.pattern[:i]
	}
	return r.pattern
}

// newEngine routes calls; peer says that they come from another member.
func (s *Server) newEngine(peer bool) *gin.Engine {
	return s.engineOf(peer, routes, errNoRoute)
}

// engineOf routes calls of the given routes; otherwise answers what is none of
// them.
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
			// The connection leaves out the body of a reply to HEAD.
			e.Handle(http.MethodHead, r.pattern, h)
		}
	}
	e.NoRoute(s.handler(route{template: "other", asks: master.Nothing, handle: otherwise}, peer))
	e.NoMethod(s.handler(route{template: "other", asks: master.Nothing, handle: errNoMethod}, peer))
	return e
}

func errNoRoute(x *exchange) error {
	return lockapi.Errorf(lockapi.CodeNotFound, "there is no route %s; %s lists the routes", x.path(), lockapi.RouteOpenAPI)
}

func errNoMethod(x *exchange) error {
	return lockapi.Errorf(lockapi.CodeMethodNotAllowed, "%s takes %s, not %.32q",
		x.path(), x.c.Writer.Header().Get("Allow"), x.c.Request.Method)
}
