"use strict";
// The page of a fleet: a list that lives on server-sent events, one cluster, and actions. Every text of a cluster is put into the document as text.
(() => {
  const $ = (id) => document.getElementById(id);
  const rows = new Map(); // key -> row as the server sent it
  const drawn = new Map(); // key -> {tr, cells, at}
  const words = { "not-enabled": "not enabled", external: "external", waiting: "waiting", migrating: "migrating", blocked: "blocked", failed: "failed", completed: "completed" };
  const severity = ["failed", "blocked", "migrating", "waiting", "completed", "not-enabled", "external"];
  const phases = ["Queued", "Handover", "Components", "Machines", "Finish", "Completed"];
  const actionWords = { start: "Start migration", hold: "Hold", release: "Take hold off", confirm: "Confirm plan", "restart-machines": "Restart machines" };
  let me = null, source = null, skew = 0, standing = "", sort = { by: "standing", up: true }, open = null, pending = null, refresh = null, focusAfter = null;

  const make = (tag, attrs = {}, ...inside) => {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attrs)) if (v !== null && v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
    e.append(...inside.filter((x) => x !== null && x !== undefined && x !== ""));
    return e;
  };
  // draws makes an element of a drawing. Its attributes are its own, and no style of the document's.
  const draws = (tag, attrs = {}, ...inside) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attrs)) if (v !== null && v !== undefined) e.setAttribute(k, v);
    e.append(...inside);
    return e;
  };
  const keyOf = (r) => r.group + "/" + r.name;
  const label = (r) => (r.group === "kubermatic.k8c.io" ? r.name : r.name + "." + r.group);
  const link = (r) => "#/cluster/" + encodeURIComponent(r.group) + "/" + encodeURIComponent(r.name);
  const now = () => Date.now() + skew;
  const age = (since) => {
    if (!since || since.startsWith("0001")) return "";
    const s = Math.max(0, (now() - Date.parse(since)) / 1000);
    if (s < 120) return Math.floor(s) + "s";
    if (s < 3600) return Math.floor(s / 60) + "m";
    if (s < 86400) return Math.floor(s / 3600) + "h" + String(Math.floor(s / 60) % 60).padStart(2, "0") + "m";
    return Math.floor(s / 86400) + "d" + (Math.floor(s / 3600) % 24) + "h";
  };
  const timeOf = (since) => (age(since) ? make("time", { datetime: since, title: new Date(since).toISOString(), "data-since": since }, age(since)) : "");
  const say = (text) => {
    const p = make("span", {}, text + ". ");
    $("live").append(p);
    while ($("live").childElementCount > 20) $("live").firstElementChild.remove();
  };

  // Asking the server.
  async function ask(method, path, body) {
    const headers = { Accept: "application/json" };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (me && me.csrf) headers["X-Transplant-Csrf"] = me.csrf;
    const answer = await fetch(path, { method, headers, credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body) });
    const doc = await answer.json().catch(() => ({}));
    if (answer.status === 401 && path !== "/api/session") signedOut(doc.error);
    if (!answer.ok) throw Object.assign(new Error(doc.error || "the operator answers " + answer.status), { status: answer.status, doc });
    return doc;
  }

  // Who.
  function show(section) {
    for (const id of ["login", "list", "detail"]) $(id).hidden = id !== section;
  }
  function signedOut(why) {
    if (source) source.close();
    source = null; me = null; open = null;
    clearTimeout(refresh);
    if ($("dialog").open) $("dialog").close();
    rows.clear(); drawn.clear(); $("rows").replaceChildren(); $("detail-body").replaceChildren();
    connection("", "");
    $("who").hidden = true; $("seed").textContent = "";
    $("login-error").textContent = why || "";
    show("login");
    document.title = "Sign in · Transplant";
    $("token").focus();
  }
  function signedIn(session) {
    me = session;
    $("user").textContent = session.user;
    $("seed").textContent = [session.seed, session.actions ? "" : "read-only"].filter(Boolean).join(" · ");
    $("who").hidden = false;
    route();
    follow();
  }
  $("login-form").addEventListener("submit", async (e) => {
    e.preventDefault();
    const token = $("token").value;
    $("login-error").textContent = "";
    try {
      const session = await ask("POST", "/api/session", { token });
      $("token").value = "";
      signedIn(session);
      focusHeading();
    } catch (err) {
      $("token").value = "";
      $("login-error").textContent = err.message;
      $("token").focus();
    }
  });
  $("logout").addEventListener("click", async () => {
    try { await ask("DELETE", "/api/session"); } catch { /* the session is over here in any case */ }
    signedOut("");
  });

  // Live.
  function connection(kind, text) { $("connection").className = "connection " + kind; if ($("connection").textContent !== text) $("connection").textContent = text; }
  function follow() {
    if (source) source.close();
    source = new EventSource("/api/events");
    connection("", "connecting");
    const on = (name, f) => source.addEventListener(name, (e) => { const d = JSON.parse(e.data); if (d.time) skew = Date.parse(d.time) - Date.now(); f(d); });
    on("fleet", (d) => {
      const seen = new Set(d.clusters.map(keyOf));
      for (const k of [...rows.keys()]) if (!seen.has(k)) rows.delete(k);
      for (const r of d.clusters) rows.set(keyOf(r), r);
      notRead(d.notRead);
      overall(d.overall);
      connection("live", "live");
      draw();
    });
    on("rows", (d) => {
      connection("live", "live");
      for (const k of d.gone || []) { rows.delete(k); say(k.split("/")[1] + " is gone"); }
      const told = [];
      for (const r of d.rows || []) {
        const was = rows.get(keyOf(r));
        rows.set(keyOf(r), r);
        if (!was || was.phase !== r.phase || was.standing !== r.standing) told.push(label(r) + ": " + (r.phase || words[r.standing]));
      }
      if (told.length > 5) say(told.length + " clusters changed"); else told.forEach(say);
      notRead(d.notRead);
      overall(d.overall);
      draw(new Set((d.rows || []).map(keyOf)));
      if (open && (d.rows || []).some((r) => keyOf(r) === open)) { clearTimeout(refresh); refresh = setTimeout(loadDetail, 400); }
    });
    on("beat", (d) => { connection("live", "live"); overall(d.overall); });
    on("over", (d) => { source.close(); me ? signedOut(d.error) : null; });
    source.onerror = () => {
      connection("lost", "not connected, trying again");
      if (source.readyState === EventSource.CLOSED) { // an answer that is no stream: who we are may have ended
        const old = source;
        ask("GET", "/api/clusters").catch((e) => { if (e.status === 403) connection("lost", e.message); }).finally(() => setTimeout(() => { if (source === old && me) follow(); }, 3000));
      }
    };
  }
  // overall draws the bar of the whole fleet, what it comes to in words, and the waves. Its words are the server's.
  function overall(o) {
    $("overall").hidden = !o || !o.total;
    if (!o || !o.total) return;
    const parts = [["done", o.done, "done"], ["moving", o.underWay || 0, "under way"], ["person", o.needPerson || 0, "in need of a person"]];
    const title = "Of " + o.total + (o.total === 1 ? " cluster " : " clusters ") + parts.map(([, n, what]) => n + " " + what).join(", ");
    const bar = draws("svg", { class: "overallbar", width: "100%", height: 16, role: "img", "aria-label": title }, draws("title", {}, title),
      draws("defs", {}, draws("pattern", { id: "stripes", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, draws("rect", { width: 6, height: 6, class: "moving" }), draws("rect", { width: 2, height: 6, class: "stripe" })),
        draws("pattern", { id: "dots", width: 5, height: 5, patternUnits: "userSpaceOnUse" }, draws("rect", { width: 5, height: 5, class: "person" }), draws("circle", { cx: 2.5, cy: 2.5, r: 1.2, class: "stripe" }))),
      draws("rect", { class: "track", width: "100%", height: 16, rx: 4 }));
    let x = 0;
    for (const [kind, n] of parts) {
      const width = 100 * n / o.total;
      if (n) bar.append(draws("rect", { class: "part-" + kind, x: x + "%", width: width + "%", height: 16 }));
      x += width;
    }
    $("overall-bar").replaceChildren(bar);
    if ($("overall-text").textContent !== o.sentence) $("overall-text").textContent = o.sentence;
    const two = o.twoOwners ? o.twoOwners + (o.twoOwners === 1 ? " cluster has" : " clusters have") + " TWO MANAGERS at once: stop one of them first" : "";
    $("overall-owners").hidden = !two;
    if ($("overall-owners").textContent !== two) $("overall-owners").textContent = two;
    $("overall-waves").hidden = !(o.waves && o.waves.length);
    $("overall-waves").replaceChildren(...(o.waves || []).map((w) => make("li", { class: w.state.replace(/ /g, "-") }, w.text)));
  }
  function notRead(list) {
    $("notread").hidden = !(list && list.length);
    $("notread").textContent = (list || []).join("; ");
  }

  // The list.
  const columns = [
    { id: "name", head: "Name", of: (r) => label(r) }, { id: "standing", head: "State", of: (r) => severity.indexOf(r.standing) + (r.owners === "both" ? -20 : r.stuck ? -10 : 0) },
    { id: "provider", head: "Provider", of: (r) => r.provider || "" }, { id: "version", head: "Version", of: (r) => r.version || "" },
    { id: "owners", head: "Loops run", of: (r) => r.owners || "" }, { id: "machines", head: "Machines", of: (r) => (r.machines && r.machines.total ? r.machines.migrated / r.machines.total : -1) },
    { id: "since", head: "Since", of: (r) => r.since || "" }, { id: "message", head: "Waits for", of: (r) => r.message || "" },
  ];
  for (const c of columns) {
    const b = make("button", { type: "button" }, c.head);
    b.addEventListener("click", () => { sort = { by: c.id, up: sort.by === c.id ? !sort.up : true }; draw(); say("sorted by " + c.head + (sort.up ? "" : ", descending")); });
    $("heads").append(make("th", { role: "columnheader", scope: "col", "data-id": c.id }, b));
  }
  for (const s of severity) {
    const b = make("button", { type: "button", "aria-pressed": "false", "data-standing": s }, make("span", { class: "count" }, "0"), words[s]);
    b.addEventListener("click", () => { standing = standing === s ? "" : s; draw(); });
    $("standings").append(b);
  }
  $("rows").addEventListener("animationend", (e) => { const tr = e.target.closest("tr"); if (tr) tr.classList.remove("fresh"); });
  $("search").addEventListener("input", () => draw());
  $("provider").addEventListener("change", () => draw());
  $("filters").addEventListener("submit", (e) => e.preventDefault());

  const owners = { both: "TWO MANAGERS", nobody: "no manager" };
  // Two managers come before everything else: each may undo what the other does.
  function badge(r) {
    const two = r.owners === "both", phase = r.phase && r.phase !== "NotNeeded" ? r.phase : words[r.standing];
    return make("span", { class: "badge " + (two ? "two-owners" : r.stuck ? "stuck" : r.standing) }, (two ? "Two managers · " : "") + phase + (r.stuck ? ", stuck" : ""));
  }
  function bar(done, total, name) {
    if (!total) return [done + "/" + total];
    return [make("progress", { max: total, value: done, "aria-label": name }), done + "/" + total];
  }
  function fill(tr, r) {
    const cell = (id, ...inside) => make("td", { role: "cell", class: id, "data-label": columns.find((c) => c.id === id).head }, ...inside);
    tr.replaceChildren(
      make("th", { role: "rowheader", scope: "row" }, make("a", { href: link(r) }, label(r)), make("small", {}, r.humanName || "")),
      cell("standing", badge(r)), cell("provider", r.provider || ""), cell("version", r.version || ""),
      cell("owners", r.owners ? make("span", { class: owners[r.owners] ? "bad" : "" }, owners[r.owners] || r.owners) : ""),
      cell("machines", ...(r.machines ? bar(r.machines.migrated, r.machines.total, "machines of " + label(r)) : [""])),
      cell("since", timeOf(r.since)), cell("message", r.message ? make("span", { class: "clamp", title: r.message }, r.message) : ""));
  }
  function matches(r) {
    const text = $("search").value.trim().toLowerCase();
    return (!standing || r.standing === standing) && (!$("provider").value || r.provider === $("provider").value) &&
      (!text || [label(r), r.humanName, r.message].some((t) => (t || "").toLowerCase().includes(text)));
  }
  // draw brings the document in line with the rows; what is in line already is not touched, so that focus and selection stay.
  function draw(fresh) {
    const by = columns.find((c) => c.id === sort.by).of, way = sort.up ? 1 : -1;
    const all = [...rows.values()], shown = all.filter(matches);
    shown.sort((a, b) => { const x = by(a), y = by(b); return (x < y ? -way : x > y ? way : 0) || (keyOf(a) < keyOf(b) ? -1 : 1); });
    const focused = document.activeElement && document.activeElement.closest("#rows tr");
    const order = [];
    const keep = new Set();
    for (const r of shown) {
      const key = keyOf(r), json = JSON.stringify(r);
      let d = drawn.get(key);
      if (!d) { d = { tr: make("tr", { role: "row", "data-key": key }), at: "" }; drawn.set(key, d); }
      if (d.at !== json) {
        const had = focused === d.tr;
        fill(d.tr, r);
        d.at = json;
        if (fresh && fresh.size <= 20 && fresh.has(key)) d.tr.classList.add("fresh");
        if (had) d.tr.querySelector("a").focus({ preventScroll: true });
      }
      keep.add(key);
      order.push(d.tr);
    }
    for (const [key, d] of drawn) if (!keep.has(key)) { d.tr.remove(); if (!rows.has(key)) drawn.delete(key); }
    let at = $("rows").firstElementChild;
    const active = document.activeElement;
    for (const tr of order) {
      if (tr === at) { at = at.nextElementSibling; continue; }
      $("rows").insertBefore(tr, at);
    }
    if (active && active !== document.activeElement && active.isConnected) active.focus({ preventScroll: true });
    heads(all, shown);
  }
  function heads(all, shown) {
    for (const th of $("heads").children) {
      if (th.dataset.id === sort.by) th.setAttribute("aria-sort", sort.up ? "ascending" : "descending"); else th.removeAttribute("aria-sort");
    }
    let migrated = 0, total = 0;
    const counts = {};
    for (const r of all) { counts[r.standing] = (counts[r.standing] || 0) + 1; if (r.machines) { migrated += r.machines.migrated; total += r.machines.total; } }
    for (const b of $("standings").children) {
      b.firstElementChild.textContent = counts[b.dataset.standing] || 0;
      b.hidden = !counts[b.dataset.standing] && standing !== b.dataset.standing;
      b.setAttribute("aria-pressed", String(standing === b.dataset.standing));
    }
    $("summary").textContent = all.length + (all.length === 1 ? " cluster" : " clusters") + (total ? " · " + migrated + " of " + total + " counted machines are external" : "");
    const told = shown.length === all.length ? "" : shown.length + " of " + all.length + " shown";
    if ($("shown").textContent !== told) $("shown").textContent = told;
    $("empty").hidden = shown.length > 0;
    const providers = [...new Set(all.map((r) => r.provider).filter(Boolean))].sort(), select = $("provider");
    if (providers.join() !== [...select.options].slice(1).map((o) => o.value).join()) {
      const was = select.value;
      select.replaceChildren(make("option", { value: "" }, "All"), ...providers.map((p) => make("option", { value: p }, p)));
      select.value = providers.includes(was) ? was : "";
    }
  }
  setInterval(() => { for (const t of document.querySelectorAll("time[data-since]")) { const a = age(t.dataset.since); if (t.textContent !== a) t.textContent = a; } }, 1000);

  // One cluster.
  function focusHeading() { const h = document.querySelector("main section:not([hidden]) h1"); if (h) h.focus(); }
  function route() {
    if (!me) return;
    clearTimeout(refresh);
    const m = /^#\/cluster\/([^/]+)\/([^/]+)$/.exec(location.hash);
    const was = open;
    open = m ? decodeURIComponent(m[1]) + "/" + decodeURIComponent(m[2]) : null;
    if (!open) {
      show("list");
      document.title = "Fleet · Transplant";
      const d = was && drawn.get(was);
      if (d && d.tr.isConnected) d.tr.querySelector("a").focus();
      return;
    }
    show("detail");
    $("detail-title").textContent = open.split("/")[1];
    document.title = open.split("/")[1] + " · Transplant";
    $("detail-body").replaceChildren(make("p", { class: "nothing" }, "Looking …"));
    loadDetail();
    $("detail-title").focus();
  }
  window.addEventListener("hashchange", route);
  const path = (key) => "/api/clusters/" + key.split("/").map(encodeURIComponent).join("/");

  async function loadDetail() {
    const key = open;
    if (!key || !me) return;
    try {
      const d = await ask("GET", path(key));
      if (open === key) drawDetail(key, d);
    } catch (err) {
      if (open === key) $("detail-body").replaceChildren(make("p", { class: "error", role: "alert" }, err.message));
    }
    clearTimeout(refresh);
    const row = rows.get(key);
    if (open === key && row && row.standing === "migrating") refresh = setTimeout(loadDetail, 10000);
  }
  const card = (title, ...inside) => { const id = "card-" + title.replace(/\W+/g, "-"); return make("section", { class: "card", "aria-labelledby": id }, make("h2", { id }, title), ...inside); };
  const table = (name, heads, lines) => make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": name }, make("table", { role: "table", "aria-label": name },
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...heads.map((h) => make("th", { scope: "col", role: "columnheader" }, h)))),
    make("tbody", { role: "rowgroup" }, ...lines.map((cells) => make("tr", { role: "row" }, ...cells.map((c, i) => make(i ? "td" : "th", i ? { role: "cell", "data-label": heads[i] } : { scope: "row", role: "rowheader" }, c)))))));

  function drawDetail(key, d) {
    const r = d.cluster, held = document.activeElement && document.activeElement.closest("#detail-body") ? document.activeElement.id : null;
    $("detail-title").textContent = label(r) + (r.humanName ? " (" + r.humanName + ")" : "");
    const fact = (dt, ...dd) => make("div", {}, make("dt", {}, dt), make("dd", {}, ...(dd.length && dd[0] ? dd : ["–"])));
    const reached = phases.indexOf(r.phase);
    const parts = [card("State",
      reached < 0 ? null : make("ol", { class: "phases", "aria-label": "Phases" }, ...phases.map((p, i) => make("li", { class: i < reached || r.phase === "Completed" ? "done" : null, "aria-current": i === reached && r.phase !== "Completed" ? "step" : null }, p))),
      make("p", {}, badge(r), " ", r.message || ""),
      make("dl", { class: "facts" }, fact("Provider", r.provider), fact("Kubernetes", r.version), fact("Namespace in the seed", r.namespace), fact("Phase since", timeOf(r.since)),
        fact("Machines", ...(r.machines ? bar(r.machines.migrated, r.machines.total, "machines that are external") : [])), fact("Held by", r.hold), fact("Paused", r.paused), fact("Restarts machines", r.restartsMachines ? "the operator does" : "their owner does")),
      d.actions.length ? make("div", { class: "buttons", role: "group", "aria-label": "Actions" }, ...d.actions.map((a) => { const b = make("button", { type: "button", id: "action-" + a }, actionWords[a]); b.addEventListener("click", () => preview(key, a)); return b; })) : null)];
    if (d.picture) parts.push(card("Timeline", picture(d.picture)));
    if (d.owners) {
      parts.push(card("Who runs the loops", table("Who runs the loops", ["Loop", "Owner", "Pod"], Object.entries(d.owners.loops || {}).sort().map(([l, o]) => [l, o.component ? o.component + (o.also && o.also.length ? " and " + o.also.join(", ") : "") + (o.byLease ? " (by its lease)" : "") : "nobody", o.pod || "–"])),
        ...(d.owners.unknown || []).map((u) => make("p", { class: "note" }, u))));
    }
    for (const p of d.parts || []) {
      const s = p.status;
      parts.push(card(p.part === "finish" ? "Finish" : "Handover", make("p", {}, ...bar(s.stepsDone, s.stepsTotal, "steps of the " + p.part), " steps · " + s.state.replace(/-/g, " ")),
        ...(s.current || []).map((c) => make("p", {}, c.id + (c.waiting ? " waits for " + c.waiting : ""))), s.lastError ? make("p", { class: "error" }, s.lastError) : null));
    }
    const check = make("button", { type: "button", id: "check" }, "Run the checks");
    const found = make("div", { id: "found", role: "status" });
    check.addEventListener("click", async () => {
      check.disabled = true; found.replaceChildren("Looking …");
      try { const rep = await ask("GET", path(key) + "/check"); found.replaceChildren(make("p", {}, rep.summary.passed + " passed, " + rep.summary.failed + " failed, " + rep.summary.unknown + " unknown, " + rep.summary.warned + " warnings"), findings(rep.findings)); } catch (err) { found.replaceChildren(err.message); }
      check.disabled = false; check.focus();
    });
    const before = $("found");
    if (before && before.childNodes.length && before.dataset.key === key) found.append(...before.childNodes);
    found.dataset.key = key;
    parts.push(card("Findings", make("p", { class: "hint" }, "What the operator checks before it begins; looking changes nothing."), check, found));
    parts.push(card("Conditions", !(r.conditions || []).length ? make("p", { class: "nothing" }, "No operator has written any.") : table("Conditions", ["Condition", "Status", "Reason", "Since", "Message"], (r.conditions || []).map((c) => [c.type, c.status, c.reason || "", timeOf(c.since), c.message || ""]))));
    parts.push(card("What happened", d.timeline.length ? table("What happened", ["Time (UTC)", "What", "Message"], d.timeline.map((e) => [make("time", { datetime: e.time, class: "time" }, e.time.replace("T", " ").replace(/(\.\d+)?Z$/, "")), e.object || e.source, e.message + (e.count > 1 ? " (" + e.count + " times)" : "")])) : make("p", { class: "nothing" }, "Nothing yet.")));
    if (d.notRead && d.notRead.length) parts.push(make("p", { class: "note" }, "Not read: " + d.notRead.join("; ")));
    $("detail-body").replaceChildren(...parts);
    if (held && $(held)) $(held).focus({ preventScroll: true });
  }
  // picture draws what the server has placed: bars for the parts of a migration, and a shape for each level of an event.
  function picture(p) {
    if (!p) return null;
    const pct = (x) => x + "%";
    const shapes = {
      warning: (x) => draws("svg", { x: pct(x), y: p.marksY - 6, class: "spill", width: 1, height: 12 }, draws("path", { class: "mark warning", d: "M0 0 L6 11 L-6 11 Z" })),
      error: (x) => draws("svg", { x: pct(x), y: p.marksY - 5, class: "spill", width: 1, height: 10 }, draws("path", { class: "mark trouble", d: "M-5 0 L5 10 M5 0 L-5 10" })),
      info: (x) => draws("circle", { class: "mark info", cx: pct(x), cy: p.marksY, r: 4 }),
    };
    const svg = draws("svg", { class: "picture", width: "100%", height: p.height, role: "img", "aria-labelledby": "picture-title", "aria-describedby": "picture-desc" },
      draws("title", { id: "picture-title" }, p.title), draws("desc", { id: "picture-desc" }, p.summary),
      draws("defs", {}, draws("pattern", { id: "going", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, draws("rect", { width: 6, height: 6, class: "moving" }), draws("rect", { width: 2, height: 6, class: "stripe" }))));
    for (const t of p.ticks) svg.append(draws("line", { class: "tick", x1: pct(t.x), x2: pct(t.x), y1: 0, y2: p.axisY }));
    for (const b of p.bars || []) svg.append(draws("text", { x: b.x > 60 ? "100%" : pct(b.x), y: b.textY, "text-anchor": b.x > 60 ? "end" : "start" }, b.text), draws("rect", { class: "span " + b.state.replace(/ /g, "-"), x: pct(b.x), y: b.y, width: pct(b.width), height: 14, rx: 2 }));
    if (p.marksY) svg.append(draws("line", { class: "tick", x1: 0, x2: "100%", y1: p.marksY, y2: p.marksY }));
    for (const m of p.marks || []) {
      const shape = (shapes[m.level] || shapes.info)(Math.min(99.2, Math.max(0.8, m.x)));
      shape.append(draws("title", {}, m.title));
      svg.append(shape);
    }
    for (const t of p.ticks) svg.append(draws("text", { class: "axis", x: pct(t.x), y: p.height - 6, "text-anchor": t.anchor }, t.label));
    return make("figure", { class: "timeline" }, svg, make("figcaption", { class: "hint" }, "● event   ▲ warning   ✕ error · the table has the same facts"));
  }
  function findings(list) {
    return make("ul", { class: "findings" }, ...(list || []).map((f) => make("li", {}, make("span", { class: "badge " + (f.outcome === "warn" ? "waiting" : "failed") }, f.outcome), " ", make("strong", {}, f.code), " " + f.summary,
      f.objects && f.objects.length ? make("small", {}, f.objects.join(", ")) : null, f.expected || f.found ? make("small", {}, "expected " + (f.expected || "–") + ", found " + (f.found || "–")) : null, f.fix ? make("small", {}, "fix: ", make("code", {}, f.fix)) : null)));
  }

  // Actions: the exact steps first, then the confirmation of just these.
  async function preview(key, action, reason = "") {
    focusAfter = "action-" + action;
    $("dialog-title").textContent = actionWords[action] + ": " + key.split("/")[1];
    $("dialog-error").textContent = "";
    $("confirm").hidden = true;
    $("dialog-body").replaceChildren(make("p", { class: "nothing", role: "status" }, "Making the plan …"));
    if (!$("dialog").open) $("dialog").showModal();
    $("dialog-title").focus();
    try {
      pending = { key, action, reason, shown: await ask("GET", path(key) + "/actions/" + action + "?reason=" + encodeURIComponent(reason)) };
      drawPreview();
    } catch (err) {
      pending = null;
      $("dialog-body").replaceChildren();
      $("dialog-error").textContent = err.message;
      $("cancel").focus();
    }
  }
  function drawPreview() {
    const { shown, action, reason, key } = pending;
    const inside = [];
    if (action === "hold") {
      const input = make("input", { id: "reason", maxlength: "200", value: reason });
      input.addEventListener("change", () => preview(key, action, input.value));
      inside.push(make("p", {}, make("label", { for: "reason" }, "Why, in a few words (shown to everybody)"), input));
    }
    if (shown.blocked) inside.push(make("p", { class: "error" }, "The checks refuse this. Nothing can be started until what they name is mended."));
    if ((shown.refusals || []).length) inside.push(make("ul", {}, ...shown.refusals.map((t) => make("li", {}, t))));
    if ((shown.findings || []).length) inside.push(findings(shown.findings));
    if (!shown.blocked) {
      inside.push(make("p", {}, shown.steps.length === 1 ? "One step:" : shown.steps.length + " steps, the first by you, the others by the operator:"));
      inside.push(make("ol", { class: "steps" }, ...shown.steps.map((s) => make("li", {}, s.title, ...(s.changes || []).map((c) => make("small", {}, c.field + ": " + (c.before || "(none)") + " → " + (c.after || "(none)")))))));
      if ((shown.effects || []).length) inside.push(make("ul", {}, ...shown.effects.map((t) => make("li", {}, t))));
      inside.push(make("p", { class: "sha" }, "plan sha256 " + shown.sha256));
    }
    $("dialog-body").replaceChildren(...inside);
    $("confirm").hidden = shown.blocked;
    $("confirm").textContent = shown.title;
    $("dialog-title").focus();
  }
  $("confirm").addEventListener("click", async () => {
    const p = pending;
    if (!p) return;
    const input = $("reason");
    if (input && input.value !== p.reason) { preview(p.key, p.action, input.value); return; }
    $("confirm").disabled = true;
    $("dialog-error").textContent = "";
    try {
      const done = await ask("POST", path(p.key) + "/actions/" + p.action, { sha256: p.shown.sha256, reason: p.reason });
      say(done.done + ": " + p.key.split("/")[1] + ", done");
      $("dialog").close();
      loadDetail();
    } catch (err) {
      if (err.doc && err.doc.preview) { pending = { ...p, shown: err.doc.preview }; drawPreview(); }
      $("dialog-error").textContent = err.message;
    }
    $("confirm").disabled = false;
  });
  $("cancel").addEventListener("click", () => $("dialog").close());
  $("dialog").addEventListener("close", () => { pending = null; const b = focusAfter && $(focusAfter); (b || $("detail-title")).focus(); });

  // Begin with the session that is there, if any.
  ask("GET", "/api/session").then(signedIn, () => signedOut(""));
})();
