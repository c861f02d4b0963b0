import { secondMs } from '../shared/model/time.ts';

/** Bounds of `agent-trust guard-mcp`, each with its reason. */
export const proxyLimits = {
  /** One POST, or one line of stdio: as much as the servers of the SDK take. */
  messageBytesMax: 4 * 1024 * 1024,
  /** All POST bodies in memory together: sixteen of the largest. Beyond it, 503. */
  bufferedBytesMax: 64 * 1024 * 1024,
  /** Messages in one batch of protocol revision 2025-03-26. Each call in it costs a decision. */
  batchMessagesMax: 64,
  /** Deeper JSON is refused: a reader that recurses may give up on it, or read something else. */
  jsonDepthMax: 100,
  /**
   * One message of the server, unless `--answer-bytes-max` says otherwise: as much as one of a client. It is
   * held whole to be looked at. A model reads a tenth of it; the rest is room for pictures.
   */
  answerBytesDefault: 4 * 1024 * 1024,
  /** What `--answer-bytes-max` may say: from a short text to the largest list of tools. */
  answerBytesRange: { min: 1_024, max: 16 * 1024 * 1024 },
  /** Messages of the server that are held at once, together: sixteen of the usual bound. */
  heldAnswersBytesMax: 64 * 1024 * 1024,
  /**
   * Text of an answer that is searched for personal data: 60,000 tokens. Prose takes 25 ms, and a text of
   * nothing but telephone numbers ten times that, in which the proxy does nothing else.
   */
  answerScanCharsMax: 256 * 1024,
  /** Requests of one session, or one program, whose answers are not there yet. More are refused. */
  openMethodsMax: 10_000,
  /** Sessions in memory, in some 300 bytes each. One that is forgotten has to be begun anew. */
  sessionsMax: 20_000,
  /** Clients whose lists are remembered, and the names in all of these. One forgotten has to list again. */
  viewsMax: 20_000,
  viewNamesMax: 500_000,
  /** Names of tools that are remembered besides those of pins. */
  seenToolsMax: 2_000,
  /** Until the control plane has answered a report of tools. */
  pinsAnswerMsMax: 5 * secondMs,
  /** Pins are read again after so long while calls pass: plans count each read. */
  pinsMsMax: 120 * secondMs,
  /** Before a call of a tool without a pin is refused they are read again, at most this often. */
  pinsPauseMs: secondMs,
  /** Redirects of the server for one request: a slash at the end, a version; more go in circles. */
  upstreamRedirectsMax: 5,
  /** Of the body of a redirect. A longer one costs its connection. */
  discardedBytesMax: 64 * 1024,
  /** From the start of the proxy until a server over HTTP that starts beside it has to answer. */
  upstreamStartMsMax: 10 * secondMs,
  upstreamStartPauseMs: 250,
  /** An answer to the question at the start is as short; of more, the rest is not read. */
  firstAnswerBytesMax: 64 * 1024,
  /** Open HTTP requests, streams included. Beyond it, 503. */
  openRequestsMax: 1_024,
  /** A passport of 8 KiB twice, for clients that send both headers, beside all others. */
  headerBytesMax: 32 * 1024,
  /** From the first byte of a request to its last. */
  requestMsMax: 30 * secondMs,
  /** A sidecar answers within 3 s (contract §5). */
  decisionMsMax: 3_500,
  /** Open streams wait for the end of their passports, a connection for each; others ask beside them. */
  sidecarConnectionsMax: 2_048,
  /** A sidecar that is gone without a word is noticed after so long and the time of a decision. */
  standingWaitMs: 10 * secondMs,
  /** Before the first question about a stream, and between two: a part of the 100 ms of a revocation. */
  standingPauseMs: 50,
  /** A stream ends without news of its passport: as old as the state may be at the strictest gates. */
  passportLostMsMax: 5 * secondMs,
  /** Messages of a stdio client that are not written to the server yet. Beyond it, nothing is read. */
  unwrittenMessagesMax: 256,
  /** What an approver is shown of a call: more is not read, and the service takes 2 KiB in all. */
  displayLinesMax: 32,
  displayNameCharsMax: 64,
  displayTitleCharsMax: 200,
  displayValueCharsMax: 200,
  displayBytesMax: 1024,
  /** Calls that were suspended, each remembered in about 200 bytes. The oldest is forgotten first. */
  rememberedApprovalsMax: 10_000,
  /** The keys that verify passports are read again after so long: one may have been declared compromised. */
  keysMsMax: 300 * secondMs,
  /** Between two attempts to read the keys, whatever made the second necessary. */
  keysPauseMs: 2 * secondMs,
  /** Tokens of identity providers whose permissions are remembered; of clients of one proxy. */
  foreignTokensMax: 1_000,
  foreignTokensAtOnceMax: 32,
  /** Issuers of others: an account has at most 100 of each mode. */
  issuersMax: 200,
  issuersPerPage: 200,
  /** Until the control plane has answered with its keys. */
  keysAnswerMsMax: 3 * secondMs,
  /** A passport is at most 8 KiB; a larger file is a mistake. */
  passportFileBytesMax: 16 * 1024,
  amountsFileBytesMax: 1024 * 1024,
  /** For requests in flight, after SIGTERM. Streams are closed at once. */
  drainMsMax: 10 * secondMs,
  /** For a stdio server, from the end of its input to SIGTERM, and from there to SIGKILL. */
  childStopMsMax: 2 * secondMs,
  /** An idle connection is closed on our side first: servers on node:http close theirs after 5 s. */
  upstreamIdleMsMax: 4 * secondMs,
} as const;
