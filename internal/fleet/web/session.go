package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// lasting and idle bound a session: from the login, and without a request.
	lasting = 12 * time.Hour
	idle    = 2 * time.Hour
	// maxSessions bounds how many there are; the one that was used least recently goes first.
	maxSessions = 1000
	// cookieName is that of the cookie of a page that is served over TLS: a browser then takes it from this host alone.
	// Without TLS (on loopback, for a try) it has the other name.
	cookieName      = "__Host-transplant"
	plainCookieName = "transplant"
	// csrfHeader carries the number of the session that scripts of other sites do not know.
	csrfHeader = "X-Transplant-Csrf"
)

// session is a browser that has shown a token.
type session struct {
	token, csrf  string
	begun, asked time.Time
}

// sessions are kept in memory: they end with the process, and a token is nowhere else.
type sessions struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	byID  map[string]*session
}

func newSessions(c clock.PassiveClock) *sessions {
	return &sessions{clock: c, byID: map[string]*session{}}
}

func (s *sessions) openSession(token string) (string, *session) {
	now := s.clock.Now()
	made := &session{
		token: token,
		csrf:  rand.Text(),
		begun: now,
		asked: now,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= maxSessions {
		oldest := ""
		for id, other := range s.byID {
			if oldest == "" || other.asked.Before(s.byID[oldest].asked) {
				oldest = id
			}
		}
		delete(s.byID, oldest)
	}
	id := rand.Text()
	s.byID[id] = made
	return id, made
}

// get is a session that is not over; nil for none.
func (s *sessions) get(id string) *session {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byID[id]
	if found == nil {
		return nil
	}
	if now.After(found.begun.Add(lasting)) || now.After(found.asked.Add(idle)) {
		delete(s.byID, id)
		return nil
	}
	found.asked = now
	return found
}

func (s *sessions) endSession(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

func cookieOf(r *http.Request) string {
	for _, name := range []string{cookieName, plainCookieName} {
		if c, err := r.Cookie(name); err == nil && (name == cookieName) == (r.TLS != nil) {
			return c.Value
		}
	}
	return ""
}

// setCookie gives the browser a session, or takes it away when the id is empty.
func setCookie(w http.ResponseWriter, r *http.Request, id string) {
	c := &http.Cookie{
		Name:     cookieName,
		Value:    id,
		Path:     "/",
		HttpOnly: true,
		Secure:   true,
		SameSite: http.SameSiteStrictMode,
		MaxAge:   int(lasting.Seconds()),
	}
	if r.TLS == nil {
		c.Name, c.Secure = plainCookieName, false
	}
	if id == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

var notSignedIn = &refusal{http.StatusUnauthorized, "sign in with a token of the seed"}

// identify says who sent a request: by the token in it, or by its session's.
func (s *server) identify(r *http.Request) (*person, error) {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	var of *session
	if !bearer {
		if of = s.sessions.get(cookieOf(r)); of == nil {
			return nil, notSignedIn
		}
		token = of.token
	}
	user, err := s.auth.who(r.Context(), token)
	switch {
	case err != nil:
		return nil, err
	case user == nil:
		if of != nil {
			s.sessions.endSession(cookieOf(r))
		}
		return nil, notSignedIn
	}
	return &person{UserInfo: *user, token: token, session: of}, nil
}

// genuine refuses what another site made a browser send: a change has to carry the number of its session.
func (p *person) genuine(r *http.Request) error {
	if p.session == nil || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(csrfHeader)), []byte(p.session.csrf)) != 1 {
		return &refusal{http.StatusForbidden, "the request does not carry the number of its session: reload the page"}
	}
	return nil
}

// signedIn is what the page knows of its session.
type signedIn struct {
	User        string `json:"user"`
	Csrf        string `json:"csrf,omitempty"`
	Actions     bool   `json:"actions"`
	ToolVersion string `json:"toolVersion,omitempty"`
	Seed        string `json:"seed,omitempty"`
}

func (s *server) signedIn(p *person) signedIn {
	out := signedIn{
		User:        p.Username,
		Actions:     s.EnableActions,
		ToolVersion: s.ToolVersion,
		Seed:        s.Seed.Server,
	}
	if p.session != nil {
		out.Csrf = p.session.csrf
	}
	return out
}

// login takes a token and gives a session for it.
func (s *server) login(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if err := readJSON(w, r, &body); err != nil {
		s.writeError(w, err)
		return
	}
	token := strings.TrimSpace(body.Token)
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		s.writeError(w, &refusal{http.StatusUnauthorized, "that is no token"})
		return
	}
	user, err := s.auth.who(r.Context(), token)
	if err == nil && user == nil {
		err = &refusal{http.StatusUnauthorized, "the seed does not know this token: it may have expired"}
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	s.sessions.endSession(cookieOf(r))
	id, made := s.sessions.openSession(token)
	setCookie(w, r, id)
	s.Log.Info("signed in to the page", "user", user.Username)
	s.write(w, http.StatusOK, s.signedIn(&person{UserInfo: *user, token: token, session: made}))
}

// readJSON reads a body that no form of another site can send.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
		return &refusal{http.StatusUnsupportedMediaType, "send application/json"}
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(reading)); err != nil && !isUnsupported(err) {
		return fmt.Errorf("bounding the time of a request: %w", err)
	}
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return &refusal{http.StatusBadRequest, "the request is no JSON that is understood here"}
	}
	// what is done now may take longer, and the connection is read meanwhile
	if err := control.SetReadDeadline(time.Time{}); err != nil && !isUnsupported(err) {
		return fmt.Errorf("lifting the bound of a request: %w", err)
	}
	return nil
}

func (s *server) session(w http.ResponseWriter, r *http.Request) {
	p, err := s.identify(r)
	if err != nil {
		s.writeError(w, err)
		return
	}
	s.write(w, http.StatusOK, s.signedIn(p))
}

func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	if p, err := s.identify(r); err == nil {
		if err := p.genuine(r); err != nil {
			s.writeError(w, err)
			return
		}
	}
	s.sessions.endSession(cookieOf(r))
	setCookie(w, r, "")
	s.write(w, http.StatusOK, map[string]string{"user": ""})
}
