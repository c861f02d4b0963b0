import { dayMs, hourMs, minuteMs, secondMs } from './time.ts';

/**
 * The bounds that both programs or several rooms use, each with its reason; the contract names most of them.
 * A bound that one room uses alone is in the `limits.ts` of that room. Relations between bounds are asserted
 * at the foot of these files, when they are loaded.
 */
export const limits = {
  /** A longer token is `passport_malformed` before any cryptography (contract §3). */
  tokenBytesMax: 8 * 1024,
  /** Contract §5; also for every JSON endpoint of the control plane. */
  bodyBytesMax: 64 * 1024,
  /** Checks in one batch, and the bytes of its body (contract §16). */
  batchChecksMax: 256,
  batchBodyBytesMax: 1024 * 1024,
  /**
   * A tool of an MCP server, in its canonical form. The largest that are known have 20 KiB of schema; a model
   * reads all of it with every request.
   */
  mcpToolBytesMax: 32 * 1024,
  /** Deeper tools are not pinned: what compares them recurses. Schemas of schemas have about 30 levels. */
  mcpToolDepthMax: 64,
  /** Tools of one upstream that are pinned: no model chooses among more. */
  mcpPinsPerUpstreamMax: 1_000,
  /** Tools in one report of a guard: one transaction each. */
  mcpReportToolsMax: 100,
  /** All tools of a report together. The body is longer by what JSON escapes. */
  mcpReportBytesMax: 384 * 1024,
  /** The address of an upstream, or the name that its operator gives it. */
  mcpUpstreamCharsMax: 300,
  /**
   * An oversized body is read up to here, so that its sender gets an answer instead of a reset (contract §5).
   */
  bodyDiscardBytesMax: 1024 * 1024,
  /**
   * Headers of a request to a sidecar: room for a token of tokenBytesMax in one of them (contract §15) beside
   * the usual ones.
   */
  headerBytesMax: 16 * 1024,
  /** Deeper JSON is refused, because later walks may recurse (contract §5). */
  jsonDepthMax: 32,
  /**
   * Batches of attestations from a sidecar: 4,000 short records of about 240 bytes twice over, or 3,000 whole
   * ones.
   */
  ingestBodyBytesMax: 2 * 1024 * 1024,
  /**
   * Stored in one transaction, about 75 ms of one core; other writers of the same chains wait that long.
   * Shares the fixed cost of a batch among many records.
   */
  ingestRecordsMax: 4_000,
  /** Lists (contract §12). */
  pageItemsDefault: 50,
  pageItemsMax: 200,
  attestationPageItemsMax: 500,
  /** Lines of a wallet's statement: a report that a program reads, each a few numbers. */
  statementLinesMax: 1_000,
  /** Skipped items are still read; so deep in a list a filter is the better tool. */
  pageOffsetMax: 1_000_000,
  /** A cursor of a list holds an id and two numbers: about 110 characters. */
  listCursorCharsMax: 256,
  /** Free text of people and agents: long enough for a sentence, short enough for a log line. */
  nameCharsMax: 200,
  descriptionCharsMax: 2_000,
  agentIdCharsMax: 128,
  /** A person or team (contract §4). */
  ownerCharsMax: 256,
  /** Of a user; also the longest subject of an issuer of others, which a user may be. */
  userCharsMax: 255,
  /** Links of a chain of `act` that are kept (contract §3). */
  actorsMax: 4,
  /** OpenID Connect Core §2 has 255 for `sub`; a SPIFFE ID fits, too. */
  foreignSubjectCharsMax: 255,
  /** Google's `kid` has 40 characters, a SHA-512 in hex 128. */
  foreignKidCharsMax: 256,
  /** Keys of one issuer of others. Entra ID publishes about ten. */
  foreignKeysMax: 64,
  /** Issuers of others of one account and mode: each token of others is compared with all of them. */
  federationsMax: 100,
  /** A JSON pointer into a token, or a value that it leads to. */
  jsonPointerCharsMax: 256,
  /** Audiences of one issuer, patterns of its subjects, and values that its permissions are mapped from. */
  federationAudiencesMax: 32,
  federationSubjectsMax: 64,
  federationMappedMax: 256,
  /** Tokens that a sidecar shows in one call. */
  shownTokensMax: 64,
  idempotencyKeyCharsMax: 128,
  /** How long a duplicate waits for the first request to end (contract §12). */
  idempotencyWaitMsMax: 5 * secondMs,
  /**
   * Expired claims removed by each call that adds some; a call that adds many removes twice as many. So they
   * go faster than they come.
   */
  permitClaimsPerTrimMax: 10,
  reasonCharsMax: 500,
  /** `metadata` and `subject` as JSON: they travel in answers, and `subject` is read by people. */
  freeFormBytesMax: 16 * 1024,
  allowedDomainsMax: 256,
  trustedIssuersMax: 256,
  /**
   * Entries of one catalog: with all their texts about what a body can hold, and the prices of all of them go
   * to every sidecar.
   */
  catalogEntriesMax: 256,
  /** `category` and `risk_level` of an entry: a word or two that others search for. */
  catalogLabelCharsMax: 64,
  /** As much as the largest amount of a request (contract §5): 1e9 USD. */
  priceCentsMax: 100_000_000_000,
  /** Promised response time: whatever answers later is no call. */
  responseTimeMsMax: dayMs,
  /** A held amount is blocked for other requests: a week is more than any approver needs. */
  approvalExpiryMsMax: 7 * dayMs,
  /** Shorter, and the outcome of a slow service arrives after the end of its hold (contract §19). */
  holdExpiryMsMin: minuteMs,
  holdExpiryMsDefault: hourMs,
  /** Held money is blocked for other requests, as that of an approval. */
  holdExpiryMsMax: 7 * dayMs,
  /** Of an outcome or a refund: a sentence for the person who reads the list. */
  outcomeDetailCharsMax: 500,
  /** Different people who have to approve one request (contract §4). */
  approversCountMax: 5,
  /** Users that a gate names as approvers: more than a team. */
  approversNamedMax: 50,
  /**
   * How long an account may keep records in the database, in days. At least a month, in which what an agent
   * did is looked at and disputed; that is also longer than a settlement or an approval refers to one. At
   * most ten years.
   */
  retentionDaysMin: 30,
  retentionDaysMax: 3_650,
  /** `?wait_ms=` of an approval (contract §8). */
  approvalWaitMsMax: minuteMs,
  /** JSON of `request.display` (contract §8). */
  displayBytesMax: 2 * 1024,
  /** More than a person reads before an answer. */
  displayLinesMax: 64,
  /** A text of it after redaction: the mark of a type is longer than the shortest finding. */
  redactedDisplayCharsMax: 16 * 1024,
  /**
   * Windows that an approval holds money of: day and month of a gate and of a passport, and four of each of
   * five wallets.
   */
  approvalHoldsMax: 24,
  /**
   * Approvals that expire in one transaction: what they hold is given back in one call to the ledger. More
   * follow at once.
   */
  approvalsPerSweepMax: 20,
  /** RFC 1035: 253 characters of text. */
  domainCharsMax: 253,
  /**
   * A parameter in a path; ids have at most 31 characters. Longer ones still get the specified error body.
   */
  pathParamCharsMax: 512,
  /** Routes of a gate (contract §15). With their paths they are about what a body can hold. */
  gateRoutesMax: 256,
  routePathCharsMax: 256,
  /** Of one route: more than the methods that HTTP registries know for most resources. */
  routeMethodsMax: 16,
  methodCharsMax: 32,
  /**
   * A path at the per-gate address: the longest target that nginx and most servers accept; a longer one may
   * have been cut.
   */
  requestPathCharsMax: 8 * 1024,
  /** Contract §3: `nbf` may be this far in the future, for clocks that differ. `exp` has no leeway. */
  notBeforeLeewayMs: 60 * secondMs,
  /** Freshness of the sidecar's state by trust level (contract §4). L1 has no bound. */
  stateAgeL2MsMax: 60 * secondMs,
  stateAgeL3MsMax: 5 * secondMs,
  /**
   * How long a request waits for leases, look-ups and settlements, all in all; then it is answered 503
   * `overloaded` (contract §5 and §6). Fifty times the duration of a call, so that a burst is worked off
   * instead of refused.
   */
  quotaWaitMsMax: secondMs,
  /** When to retry after BLOCK `quota_unavailable`: a restarting control plane is back about then. */
  quotaRetryMs: secondMs,
  /**
   * Longest pause between two attempts of a lease call, and so the delay until a returned control plane is
   * noticed.
   */
  leaseRetryLastMs: 250,
  /** Of one call: a transaction of some 30 ms, and about 700 KB; fewer if records hold many findings. */
  settlementsPerCallMax: 256,
  settlementCallBytesMax: 8 * 1024 * 1024,
  /** Proofs whose first use a sidecar claims in one call: one statement, and 20 KB. */
  proofClaimsPerCallMax: 256,
  /**
   * Windows that one request draws on: minute, hour and day of requests, day and month of money, of the gate
   * and of the passport, the total of a standing approval, and six limits of each of five wallets.
   */
  settlementHeldMax: 41,
  /** Pause before a void that the spool refused is retried. */
  voidRetryMs: secondMs,
  /** Clocks of synchronised machines differ by milliseconds; more is reported (contract §6). */
  clockOffsetMsMax: secondMs,
  /** Heads are read from PostgreSQL and published this often (ARCHITECTURE.md, "The change feed"). */
  heartbeatIntervalMs: secondMs,
  /** One long poll; well below the L3 bound, so that one lost answer does not make the state stale. */
  longPollMsMax: secondMs,
  /** A sidecar is connected while it was seen within this time. */
  sidecarConnectedMs: 3 * secondMs,
  /** `?wait_ms=` of a revocation (contract §3). */
  propagationWaitMsMax: 5 * secondMs,
  /**
   * A snapshot as it travels. The gates and keys of an account have three quarters of it; the rest is for
   * what all accounts share, a million revoked passports in 21 MB (contract §4).
   */
  snapshotBytesMax: 256 * 1024 * 1024,
  feedItemsBytesMax: 192 * 1024 * 1024,
  /** Changes that a sidecar takes in one answer to a pull, and their bytes. */
  changesPerPullMax: 1_000,
  changesBytesMax: 128 * 1024 * 1024,
  /**
   * Each is read as a whole and holds a database connection. One account takes half of them; its next ones
   * wait, and beyond that its sidecars get 503 `overloaded` and come again.
   */
  snapshotsAtOnceMax: 4,
  snapshotsPerAccountMax: 2,
  snapshotsWaitingPerAccountMax: 16,
  /**
   * Batches of records processed at once, of all accounts and of one: one is stored, the next signed, the
   * third read. Waiting batches are in memory, at most two per sidecar, and no more than a machine at 8,000
   * records a second stores within `internalCallMsMax`, after which their senders have given up.
   */
  ingestsAtOnceMax: 4,
  ingestsPerAccountMax: 3,
  ingestsWaitingPerAccountMax: 16,
  /**
   * Between two pulls, however much asks for one: a flood of bad messages on the bus must not become a flood
   * of calls.
   */
  pullGapMsMin: 25,
  /**
   * The standing of a passport is kept this long past its expiry, because the clocks of revoker and checker
   * may differ.
   */
  standingKeptMs: hourMs,
  /** Verification, spool and answer together; past it the caller gets 503 `overloaded`. */
  decisionDeadlineMs: 3 * secondMs,
  /** Findings of personal data in one record (contract §7). */
  piiFindingsMax: 32,
  /**
   * Text of a request that is scanned for personal data, in UTF-16 code units: any script has the same room
   * (contract §7).
   */
  piiScanCharsMax: 16 * 1024,
  /**
   * Checks of candidates for a phone number in one scan: each takes 5 to 20 us on a free core. A scan that
   * would need more is not complete.
   */
  piiPhoneChecksMax: 256,
  /** A JSON pointer into a request; its parts are keys that the caller chose. */
  piiPointerCharsMax: 512,
  /** A shadow costs a second decision for each request, so one that nobody looks at has to end. */
  shadowDefaultMs: 7 * dayMs,
  shadowMsMax: 30 * dayMs,
  /** Conditions of a gate or a passport: each is asked of a request within one budget (contract §4). */
  conditionsMax: 32,
  /** Its message, which answers carry. */
  conditionMessageCharsMax: 200,
  /** Conditions of a gate and a passport, 32 each, that a record names. */
  carriedConditionsMax: 64,
  /** Commitments in a record. */
  carriedFactsMax: 32,
  /** Names of units in a record. */
  carriedUnitsMax: 16,
  /**
   * All pointers of one scan, as JSON. An answer holds them twice, and one long name may be in all of them: a
   * batch of 1 MiB could ask for an answer of 50.
   */
  piiPointersJsonCharsMax: 4 * 1024,
  /** Retry of the shipper and of the pull, doubling from first to last. */
  retryFirstMs: 50,
  retryLastMs: secondMs,
  /** Timeout of a call from one of our programs to another. */
  internalCallMsMax: 10 * secondMs,
  /** DRAIN_GRACE_MS: longer than any load balancer takes to notice that `/readyz` fails. */
  drainGraceMsMax: 5 * minuteMs,
  /** After SIGTERM, and DRAIN_GRACE_MS: time for requests in flight and for the spool to be shipped. */
  drainMsMax: 10 * secondMs,
  /** `expires_in_days` and `expires_in` of a passport (contract §3). */
  passportDaysDefault: 90,
  passportDaysMax: 3_650,
  /** More than all scopes with their aliases. */
  scopesPerKeyMax: 32,
  /**
   * After a roll the old key, or the old secret of a webhook, may work for a week: long enough to change it
   * everywhere, too short to be forgotten.
   */
  keyOverlapMsMax: 7 * dayMs,
  /** Limits of an enterprise plan: larger ones mean none. */
  planRequestsMax: 1_000_000_000,
  /**
   * Returns in one lease call, and asks: both together are one statement of the ledger. A sidecar that needs
   * more makes the next call.
   */
  leasesPerCallMax: 250,
  /** A lease call with as many of both: 350 characters each at most; and as many passports. */
  leaseCallBytesMax: 256 * 1024,
  /**
   * One part in this many of the rest of a window, after current needs, is leased ahead. With fewer than 17
   * units left nothing is leased ahead, so that several sidecars use a window to its last unit.
   */
  leaseAheadPart: 16,
  /**
   * Leases that one PERMIT takes from: of a gate and of a passport, by minute, hour, day and month, requests
   * and money, of a standing approval, and of five wallets with six limits each.
   */
  leasesPerRecordMax: 46,
  /**
   * Lead time of units leased ahead near a limit, at the recent rate: many times the duration of a call, yet
   * others miss the units only for a fraction of a second.
   */
  leaseAheadMs: 200,
  /** The same far from a limit: longer than a restart of the control plane or of PostgreSQL. */
  leaseReserveMs: 5 * secondMs,
  /** The rate is the mean over one to two such spans, so past requests are forgotten after a second. */
  leasePaceMs: 500,
  /** Minimum interval of a measurement: the requests of one event-loop turn are no rate. */
  leaseSampleMsMin: 20,
  /**
   * Units idle for this long go back, swept this often: after 0.6 to 1.4 s, so within 2 s including the call
   * (contract §6).
   */
  leaseIdleMs: 600,
  /** Lent, unused units are back after this (contract §6). */
  lentUnitsMsMax: 2 * secondMs,
  leaseSweepMs: 200,
  /** Windows of the quota ledger in one statement: all of them stay locked until it commits. */
  quotaWindowsPerCallMax: 500,
  /** Longer URLs are cut by programs in between. */
  webhookUrlCharsMax: 2_048,
  /**
   * One attempt, from the name of the host to the last byte of the answer: a receiver that needs longer
   * should answer first and work then.
   */
  webhookTimeoutMs: 10 * secondMs,
  /**
   * Head and body of one request must have arrived within this; a client that trickles holds a connection no
   * longer.
   */
  requestReadMsMax: 30 * secondMs,
  /** Each running export keeps a database connection and a snapshot; the others get 503 `overloaded`. */
  exportsAtOnceMax: 4,
  /** No account keeps all others from exporting. */
  exportsPerAccountMax: 2,
  /**
   * A reader of an export that reads nothing for this long is disconnected, because its snapshot holds up
   * vacuum.
   */
  exportStallMsMax: 20 * secondMs,
  /** A snapshot may hold up vacuum for at most this long: a gigabyte at 50 KB/s. */
  exportMsMax: 6 * hourMs,
  /**
   * `before` and `after` of an audit entry: a passport with a page of metadata fits; larger states are
   * replaced by their hash.
   */
  auditStateBytesMax: 8 * 1024,
  /** `last_used_at` of an API key is written at most this often (contract §2). */
  keyUseWriteIntervalMs: minuteMs,
  /**
   * From the publication of a signing key to its first signature (contract §11): until then every replica,
   * sidecar and cached JWKS has it.
   */
  signingKeyLeadMs: minuteMs,
  /** How long an answered JWKS may be kept. */
  jwksAgeMsMax: 30 * secondMs,
  /**
   * Each replica reads the signing keys this often: how long a compromised one may go on signing if the push
   * is lost.
   */
  signingKeysReadIntervalMs: secondMs,
  /**
   * Connections of one program to PostgreSQL, unless DATABASE_CONNECTIONS is set: three replicas stay below
   * its default of 100.
   */
  databaseConnectionsMax: 32,
  /** Range of DATABASE_CONNECTIONS: a few for each kind of work, up to the limits of the largest servers. */
  databaseConnectionsRange: { min: 10, max: 1_000 },
  /**
   * Public searches at once, each on a connection: at 5 ms each 400 a second. The next ones wait, a quarter
   * second at that speed, and no longer than the callers of a slow database bear; beyond that 503
   * `overloaded`.
   */
  discoveriesAtOnceMax: 2,
  discoveriesWaitingMax: 64,
  discoveryTurnMsMax: 2 * secondMs,
  /** Offers that a search skips by offset; a cursor leads further. */
  discoveryOffsetMax: 1_000,
  /** A cursor holds a figure, a gate and a permission key: at most 300 characters. */
  discoveryCursorCharsMax: 512,
  /**
   * Deciding transactions, of all accounts and of one: they may wait for each other's locks, each on a
   * connection. The other connections serve key look-ups, lease calls and records.
   */
  decisionsAtOnceMax: 10,
  decisionsPerAccountMax: 6,
  /**
   * Lease calls, of all accounts and of one: those that draw on one window, such as that of the root of a
   * tree of wallets, wait for each other's locks, each on a connection. At 5 ms each 800 a second.
   */
  leaseCallsAtOnceMax: 5,
  leaseCallsPerAccountMax: 4,
  /** Timeout of a new connection: below the patience of callers, so that they get their 503. */
  databaseConnectMsMax: 5 * secondMs,
  /**
   * A connection that is silent for this long with an open statement or transaction counts as dead; its
   * caller gets 503.
   */
  databaseSilenceMsMax: 10 * secondMs,
  /** The statements of a migration may rewrite a table, and replicas wait for each other. */
  databaseMigrationMsMax: 10 * minuteMs,
  /**
   * `/readyz` reports a database that has not answered within this as unreachable: below the usual patience
   * of a prober.
   */
  readinessMsMax: 2 * secondMs,
  /** Timeout of `agent-trust healthcheck`: below that of its callers, such as Docker. */
  healthcheckMsMax: 3 * secondMs,
  /** A JWKS read from a file or an address: several thousand keys of about 300 bytes. */
  jwksBytesMax: 1024 * 1024,
} as const;

export function mustHold(relation: boolean, sentence: string): void {
  if (!relation) throw new Error(`limits.ts: ${sentence}`);
}

mustHold(limits.tokenBytesMax < limits.bodyBytesMax, 'a body must hold a token and a request');
mustHold(
  limits.batchBodyBytesMax <= limits.bodyDiscardBytesMax,
  'a batch is read whole before its body is too large for anybody',
);
mustHold(
  limits.bodyBytesMax < limits.bodyDiscardBytesMax,
  'a body that is too large is read on, then refused',
);
mustHold(limits.longPollMsMax * 2 < limits.stateAgeL3MsMax, 'one lost long poll must not make L3 stale');
mustHold(
  limits.heartbeatIntervalMs * 3 < limits.stateAgeL3MsMax,
  'two lost heartbeats must not make L3 stale',
);
mustHold(
  limits.sidecarConnectedMs > 2 * limits.longPollMsMax,
  'a sidecar in a long poll counts as connected',
);
mustHold(limits.pageItemsDefault <= limits.pageItemsMax, 'the default page is a legal page');
mustHold(
  limits.jwksAgeMsMax + 10 * limits.signingKeysReadIntervalMs < limits.signingKeyLeadMs,
  'a cached JWKS of the slowest replica holds every key that signs',
);
mustHold(
  limits.quotaWaitMsMax < limits.decisionDeadlineMs,
  'a request whose wait for units fails still gets a decision',
);
mustHold(
  Math.max(2 * limits.leaseIdleMs + limits.leaseSweepMs, 2 * (limits.leasePaceMs + limits.leaseSweepMs)) <=
    1.5 * secondMs,
  'idle units are returned early enough to be available again within 2 s',
);
mustHold(limits.exportStallMsMax < limits.exportMsMax, 'an export may stall and resume');
mustHold(
  limits.idempotencyWaitMsMax < limits.databaseSilenceMsMax,
  'a duplicate that waits is not mistaken for a dead database',
);
mustHold(limits.exportsPerAccountMax < limits.exportsAtOnceMax, 'one account cannot occupy all exports');
mustHold(
  ((limits.ingestsPerAccountMax + limits.ingestsWaitingPerAccountMax) * limits.ingestRecordsMax) / 8_000 <
    limits.internalCallMsMax / secondMs,
  'a batch that waits behind full ones is answered in time',
);
mustHold(
  limits.decisionsAtOnceMax +
    limits.leaseCallsAtOnceMax +
    limits.exportsAtOnceMax +
    limits.discoveriesAtOnceMax +
    limits.snapshotsAtOnceMax +
    limits.ingestsAtOnceMax +
    3 <=
    limits.databaseConnectionsMax,
  'decisions and lease calls that wait for each other leave connections for other work',
);
mustHold(limits.decisionsPerAccountMax < limits.decisionsAtOnceMax, 'an account leaves slots for the others');
mustHold(
  limits.leaseCallsPerAccountMax < limits.leaseCallsAtOnceMax,
  'an account leaves lease calls to the others',
);
mustHold(
  limits.exportsAtOnceMax * 2 < limits.databaseConnectionsMax,
  'exports leave connections for other work',
);
mustHold(
  2 * limits.leasesPerCallMax <= limits.quotaWindowsPerCallMax,
  'the returns and the asks of a lease call are one statement of the ledger',
);
mustHold(
  2 * limits.leasesPerCallMax * 400 < limits.leaseCallBytesMax,
  'the largest lease call fits in its body',
);
mustHold(
  limits.approvalsPerSweepMax * limits.approvalHoldsMax <= limits.quotaWindowsPerCallMax,
  'the units held by a full batch of approvals are returned in one call',
);
mustHold(
  limits.readinessMsMax < limits.healthcheckMsMax,
  'a health check receives the reason why the control plane is not ready',
);
