// Copyright (c) 2026, pipecat-turn-acid contributors
//
// SPDX-License-Identifier: BSD-2-Clause

// A client of Pipecat's runner: its SmallWebRTC endpoints for the call, RTVI messages for the rest.

const RTVI_VERSION = "2.2.0";
const PING_MS = 1000; // Pipecat takes a client for gone after 3 s.
const PATIENCE_MS = 60000; // The first call loads the models.

const $ = (id) => document.getElementById(id);
let call = null;

// --- the call -------------------------------------------------------------------------------

async function connect() {
  clear();
  say("connecting", "Connecting …");
  const here = { pc: null, channel: null, microphone: null, ping: 0, id: "", waiting: [] };
  call = here;
  here.patience = setTimeout(() => {
    if (here === call) hangUp("The bot does not answer. Its terminal says why.");
  }, PATIENCE_MS);
  try {
    here.microphone = await openMicrophone();
    const session = await post("/start", { transport: "webrtc" });
    here.path = `/sessions/${session.sessionId}/api/offer`;
    const pc = (here.pc = new RTCPeerConnection(session.iceConfig ?? {}));
    pc.addTransceiver(here.microphone ?? "audio", { direction: "sendrecv" });
    pc.ontrack = (event) => ($("voice").srcObject = new MediaStream([event.track]));
    pc.onicecandidate = (event) => event.candidate && offerCandidate(here, event.candidate);
    pc.onconnectionstatechange = () => {
      if (pc.connectionState === "failed") hangUp("The connection to the bot was lost.");
    };
    here.channel = pc.createDataChannel("rtvi", { ordered: true });
    here.channel.onopen = () => ready(here);
    here.channel.onmessage = (event) => receive(here, JSON.parse(event.data));
    here.channel.onclose = () => here === call && hangUp("The bot has left.");
    await negotiate(here);
  } catch (error) {
    if (here === call) hangUp(`Cannot reach the bot: ${error.message}`);
  }
}

async function openMicrophone() {
  try {
    if (!navigator.mediaDevices) throw new Error("it takes https, or localhost");
    const stream = await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true },
    });
    return stream.getAudioTracks()[0];
  } catch (error) {
    complain(`No microphone (${error.message}). You can type instead.`);
    return null;
  }
}

async function negotiate(here) {
  await here.pc.setLocalDescription(await here.pc.createOffer());
  const { sdp, type } = here.pc.localDescription;
  const answer = await post(here.path, { sdp, type, ...(here.id && { pc_id: here.id }) });
  await here.pc.setRemoteDescription(answer);
  here.id = answer.pc_id;
  here.waiting.splice(0).forEach((candidate) => offerCandidate(here, candidate));
}

function offerCandidate(here, { candidate, sdpMid, sdpMLineIndex }) {
  if (!here.id) {
    here.waiting.push({ candidate, sdpMid, sdpMLineIndex });
    return;
  }
  const candidates = [{ candidate, sdp_mid: sdpMid, sdp_mline_index: sdpMLineIndex }];
  // A candidate that is not delivered is one way less; the others remain.
  post(here.path, { pc_id: here.id, candidates }, "PATCH").catch(() => {});
}

async function post(path, body, method = "POST") {
  const headers = { "content-type": "application/json" };
  const response = await fetch(path, { method, headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path} says ${response.status}`);
  return response.json();
}

function ready(here) {
  here.channel.send("ping");
  here.ping = setInterval(() => here.channel.send("ping"), PING_MS);
  send(here, "client-ready", {
    version: RTVI_VERSION,
    about: { library: "pipecat-turn-acid page" },
  });
}

function send(here, type, data) {
  const id = crypto.randomUUID?.() ?? String(Math.random());
  here.channel.send(JSON.stringify({ label: "rtvi-ai", type, id, data }));
}

function hangUp(problem) {
  const here = call;
  call = null;
  clearInterval(here?.ping);
  clearTimeout(here?.patience);
  here?.microphone?.stop();
  here?.channel?.close();
  here?.pc?.close();
  $("voice").srcObject = null;
  if (problem) complain(problem);
  say("idle", "Not connected");
}

function say(state, text) {
  $("status").textContent = text;
  $("status").dataset.state = state;
  $("connect").textContent = state === "idle" ? "Connect" : "Hang up";
  $("mute").setAttribute("aria-pressed", "false");
  $("mute").hidden = state !== "ready" || !call?.microphone;
  for (const field of $("write").elements) field.disabled = state !== "ready";
}

function complain(text) {
  $("problem").textContent = text;
  $("problem").hidden = false;
}

function announce(text) {
  $("news").textContent = text;
}

// --- what the bot tells ---------------------------------------------------------------------

function receive(here, message) {
  if (here !== call) return;
  const { type, data } = message;
  switch (type) {
    case "signalling":
      if (message.message?.type === "peerLeft") hangUp("The bot has left.");
      else if (message.message?.type === "renegotiate") negotiate(here).catch(() => {});
      break;
    case "bot-ready":
      clearTimeout(here.patience);
      say("ready", here.microphone ? "Connected: speak" : "Connected: type");
      break;
    case "user-input":
      if (data.final) heard(data.text);
      break;
    case "bot-output":
      spoken(data);
      break;
    case "bot-interrupted":
      cut();
      break;
    case "server-message":
      if (data.type === "turn-acid-state") showState(data);
      else if (data.type === "turn-acid-history") showHistory(data);
      break;
    case "error":
    case "error-response":
      complain(data.error);
      break;
  }
}

// --- the conversation -----------------------------------------------------------------------

let segments = new Map();

function clear() {
  for (const id of ["talk", "rounds", "history", "fence-list"]) $(id).replaceChildren();
  $("problem").hidden = true;
  segments = new Map();
  history.length = 0;
  rounds = new Map();
}

function heard(text) {
  addLine("you", "You", element("span", "said", text));
  announce(`You said: ${text}`);
}

function spoken({ segment_id: id, text, will_be_spoken, spoken_status, spoken_progress }) {
  let line = segments.get(id);
  if (!line) {
    const said = element("span", "said", "");
    const unsaid = element("span", "unsaid", text);
    const item = addLine("bot", "Bot", said, unsaid);
    line = { item, said, unsaid, text };
    segments.set(id, line);
  }
  if (line.done) return;
  if (!will_be_spoken || spoken_status === "completed") {
    [line.said.textContent, line.unsaid.textContent] = [text, ""];
    line.done = true;
    announce(`Bot: ${text}`);
  } else if (spoken_progress) {
    line.said.textContent = spoken_progress.accumulated_text;
    line.unsaid.textContent = text.slice(spoken_progress.accumulated_text.length);
  }
  follow($("talk"));
}

function cut() {
  for (const line of segments.values()) {
    if (line.done) continue;
    line.done = true;
    line.item.classList.add("cut");
    line.item.querySelector(".who").textContent = "Bot, cut short";
  }
}

function addLine(kind, who, ...parts) {
  const item = element("li", kind, "");
  item.append(element("span", "who", who), ...parts);
  $("talk").append(item);
  follow($("talk"));
  return item;
}

// --- the turns ------------------------------------------------------------------------------

let rounds = new Map();

const OPEN = ["staged", "complete", "outliving"];
const SIGNS = { staged: "…", complete: "…", outliving: "…", committed: "✓" };

function showState(state) {
  $("epoch").textContent = state.epoch;
  $("epoch").dataset.over = state.is_over;
  $("staged").textContent = state.rounds.filter((round) => OPEN.includes(round.state)).length;
  $("committed").textContent = state.counts.committed;
  $("rolled-back").textContent = state.counts.rolled_back;
  $("fenced").textContent = state.counts.fenced;
  $("no-rounds").hidden = state.rounds.length > 0;
  for (const round of state.rounds) showRound(round);
  $("fences").hidden = state.fenced.length === 0;
  $("fence-list").replaceChildren(
    ...state.fenced.map(({ kind, epoch, reason }) =>
      element("li", "", `${kind} of turn ${epoch}: ${reason}`),
    ),
  );
}

function showRound({ number, epoch, state, calls }) {
  let item = rounds.get(number);
  if (!item) {
    item = element("li", "", "");
    rounds.set(number, item);
    $("rounds").prepend(item);
  } else if (item.dataset.state === state) {
    return;
  }
  item.dataset.state = state;
  item.dataset.epoch = epoch;
  const list = element("ul", "", "");
  for (const { name, arguments: given, has_side_effects } of calls) {
    const line = element("li", "", "");
    line.append(element("code", "", `${name}(${inWords(given)})`));
    if (has_side_effects) line.append(" ", element("span", "hint", "has side effects"));
    list.append(line);
  }
  item.replaceChildren(
    element("span", "", `Round ${number} of turn ${epoch}: `),
    element("span", "state", `${SIGNS[state] ?? "✗"} ${state}`),
    list,
  );
  announce(`Round ${number} ${state}`);
}

const history = [];

// For whoever looks at the page from its console.
window.turnAcid = { history };

function showHistory({ start, messages }) {
  history.splice(start, history.length, ...messages);
  const list = $("history");
  while (list.children.length > start) list.lastChild.remove();
  list.append(...history.slice(start).map(describe));
  follow(list);
}

function describe(message) {
  const item = element("li", "", "");
  item.dataset.role = message.role;
  item.append(element("span", "role", message.role));
  if (message.content) {
    const text =
      typeof message.content === "string" ? message.content : JSON.stringify(message.content);
    item.append(element(message.role === "tool" ? "code" : "span", "", text));
  }
  for (const { function: called } of message.tool_calls ?? []) {
    item.append(element("code", "", `${called.name}(${inWords(called.arguments)})`));
  }
  return item;
}

function inWords(given) {
  try {
    return Object.entries(JSON.parse(given))
      .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
      .join(", ");
  } catch {
    return given;
  }
}

function element(tag, kind, text) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.textContent = text;
  return made;
}

function follow(list) {
  list.scrollTop = list.scrollHeight;
}

// --- the controls ---------------------------------------------------------------------------

$("connect").addEventListener("click", () => (call ? hangUp() : connect()));

addEventListener("pagehide", () => call && hangUp());

$("mute").addEventListener("click", () => {
  const { microphone } = call;
  microphone.enabled = !microphone.enabled;
  $("mute").setAttribute("aria-pressed", String(!microphone.enabled));
});

$("write").addEventListener("submit", (event) => {
  event.preventDefault();
  const content = $("words").value.trim();
  if (!content || !call) return;
  $("words").value = "";
  send(call, "send-text", { content, options: { run_immediately: true, audio_response: true } });
});
