import { dayMs, hourMs, minuteMs, secondMs } from './time.ts';

/**
 * Every bound of the service, each with its reason (the contract names most of them), but for those in the
 * `limits.ts` of a room that uses them alone. Relations between bounds are asserted at the foot of these
 * files, when they are loaded.
 */
export const limits = {
  /** A longer token is `passport_malformed` before any cryptography (contract §3). */
  tokenBytesMax: 8 * 1024,
  /** Contract §5; also what every JSON endpoint of the control plane takes. */
  bodyBytesMax: 64 * 1024,
  /** Checks in one batch, and the bytes of its body (contract §16). */
  batchChecksMax: 256,
  batchBodyBytesMax: 1024 * 1024,
  /** Decided in one turn of the event loop: about 1 ms, which every other caller may have to wait. */
  batchChecksPerTurn: 32,
  /** A body is read on to here so that its sender gets an answer instead of a reset (contract §5). */
  bodyDiscardBytesMax: 1024 * 1024,
  /**
   * Headers of a request to a sidecar: room for a token of tokenBytesMax in one of them (contract §15) beside
   * the usual ones.
   */
  headerBytesMax: 16 * 1024,
  /**
   * A connection that says nothing for so long, idle or in mid-request, is closed. Fixed in uWebSockets.js at
   * 10 to 11 s.
   */
  requestSilenceMsMax: 10 * secondMs,
  /**
   * A message of a stream: one of up to twice what a frame may have is read whole, so that it gets an answer
   * (contract §16); a longer one ends the connection.
   */
  streamMessageBytesMax: 128 * 1024,
  /**
   * A client that does not answer a close frame is cut off after this. uWebSockets.js fixes it at up to 16 s.
   */
  streamCloseMsMax: 16 * secondMs,
  /** Deeper JSON is refused: whoever walks it later may recurse (contract §5). */
  jsonDepthMax: 32,
  /** Batches of attestations from a sidecar: 1,000 records of about 700 bytes, twice over. */
  ingestBodyBytesMax: 2 * 1024 * 1024,
  /** One transaction links, signs and inserts them; at about 25 us a signature that is 25 ms of one core. */
  ingestRecordsMax: 1_000,
  /** Lists (contract §12). */
  pageItemsDefault: 50,
  pageItemsMax: 200,
  attestationPageItemsMax: 500,
  /** What is skipped is still read: whoever is that deep in a list wants a filter. */
  pageOffsetMax: 1_000_000,
  /** Free text of people and agents: long enough for a sentence, short enough for a log line. */
  nameCharsMax: 200,
  descriptionCharsMax: 2_000,
  agentIdCharsMax: 128,
  idempotencyKeyCharsMax: 128,
  /** How long a duplicate waits for the first request to end (contract §12). */
  idempotencyWaitMsMax: 5 * secondMs,
  /** How long the first PERMIT under a `request.idempotency_key` is answered again (contract §5). */
  permitKeyKeptMs: 24 * hourMs,
  /**
   * Removed so long after their end: a replica whose clock is ahead takes nothing from one whose clock is
   * behind.
   */
  permitClaimTrimAfterMs: hourMs,
  /** Claims that are over, removed for each new one: they go faster than they come. */
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
  /**
   * Gates of an account that leave discovery with its suspension, or come back, in one transaction: other
   * gates that publish wait for it.
   */
  discoveryGatesPerStepMax: 20,
  /** As much as the largest amount of a request (contract §5): 1e9 USD. */
  priceCentsMax: 100_000_000_000,
  /** Promised response time: whatever answers later is no call. */
  responseTimeMsMax: dayMs,
  /** A held amount is money that nobody else can spend: a week of it is more than any approver needs. */
  approvalExpiryMsMax: 7 * dayMs,
  /** Windows that an approval holds money of: day and month, of a gate and of a passport. */
  approvalHoldsMax: 4,
  /**
   * Of one passport at one gate: more than anybody looks through, and one that asks without end neither fills
   * the list nor keeps other gates from asking.
   */
  approvalsPendingMax: 100,
  /**
   * An approval whose time is over is written as expired, and its money freed, at most this long after;
   * within twice that with a busy database.
   */
  approvalSweepIntervalMs: secondMs,
  /** One that cannot be written as expired is tried again, and reported again, after this. */
  approvalPutOffMs: minuteMs,
  /**
   * Approvals that expire in one transaction: what they hold is given back in one call to the ledger. More
   * follow at once.
   */
  approvalsPerSweepMax: 100,
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
   * A path at the per-gate address: the longest target that nginx and most servers take; beyond it a reader
   * may have cut it off.
   */
  requestPathCharsMax: 8 * 1024,
  /** Contract §3: `nbf` may lie this far ahead, for clocks that differ. `exp` has no leeway. */
  notBeforeLeewayMs: 60 * secondMs,
  /** Freshness of the sidecar's state by trust level (contract §4). L1 has no bound. */
  stateAgeL2MsMax: 60 * secondMs,
  stateAgeL3MsMax: 5 * secondMs,
  /**
   * How long a request waits for leases, look-ups and settlements, all in all; then it is answered 503
   * `overloaded` (contract §5 and §6). Fifty times what a call takes, so that a burst is worked off instead
   * of refused.
   */
  quotaWaitMsMax: secondMs,
  /**
   * When a BLOCK `quota_unavailable` is worth another try: a control plane that restarts is back about then.
   */
  quotaRetryMs: secondMs,
  /**
   * Longest pause between two attempts of a lease call: a control plane that is back is noticed that soon.
   */
  leaseRetryLastMs: 250,
  /** Of one call: a transaction of some 30 ms, and about 700 KB; fewer, where records hold many findings. */
  settlementsPerCallMax: 256,
  settlementCallBytesMax: 8 * 1024 * 1024,
  /** The second call gathers and travels while the first one commits; with more, each would carry less. */
  settlementCallsAtOnceMax: 2,
  /**
   * Open settlements of one sidecar, until the rate of its control plane was measured: what that settles in
   * about a second.
   */
  settlementsMax: 4_096,
  /**
   * So many may be open however slow the control plane was when it was measured: otherwise it would never be
   * measured again.
   */
  settlementsOpenMin: 32,
  /**
   * Windows that one request draws on: minute, hour and day of requests, day and month of money, of the gate
   * and of the passport.
   */
  settlementHeldMax: 10,
  /** A void that the spool does not take is tried again after this. */
  voidRetryMs: secondMs,
  /**
   * A PERMIT that is settled was decided this recently: one that was on its way for longer may have been
   * voided and forgotten.
   */
  settlementAgeMsMax: minuteMs,
  /**
   * The control plane reads PostgreSQL's clock this often; between two readings it goes on by its own
   * monotonic one.
   */
  clockReadIntervalMs: secondMs,
  /**
   * Between two machines that keep time the clocks differ by milliseconds; more is reported (contract §6).
   */
  clockOffsetMsMax: secondMs,
  /** A sidecar on a machine whose clock is further off is not ready (contract §6). */
  clockOffsetReadyMsMax: minuteMs,
  /**
   * An event loop in which nothing ran for so long was stopped, and applies the feed before it decides again.
   */
  loopStopMsMax: secondMs,
  /** So often a loop shows that it runs: several times within `loopStopMsMax`. */
  loopTickMs: 100,
  /** A control plane that has not answered for so long after a stop counts as away. */
  catchUpMsMax: 1_500,
  /** Requests that wait for that: as many as wait for leases. More are shed. */
  catchUpWaitersMax: 5_000,
  /** Heads are read from PostgreSQL and published this often (ARCHITECTURE.md, "The change feed"). */
  heartbeatIntervalMs: secondMs,
  /** One long poll; well below the L3 bound, so that one lost answer does not make the state stale. */
  longPollMsMax: secondMs,
  /** A sidecar is connected while it was heard of within this time. */
  sidecarConnectedMs: 3 * secondMs,
  /**
   * One that was heard of within this time, and is not connected, is named where a revocation is told who has
   * heard of it.
   */
  sidecarSilentMs: 10 * minuteMs,
  silentSidecarsMax: 64,
  /**
   * Foreign gates at which passports of one account were shown, as far as that answer looks for their
   * sidecars: 10 us each.
   */
  servingGatesMax: 1_000,
  /** `?wait_ms=` of a revocation (contract §3). */
  propagationWaitMsMax: 5 * secondMs,
  /** Changes in one pull; more are fetched by the next one. */
  changesPerPullMax: 1_000,
  /** Changes are kept this long; a sidecar that was away longer loads a snapshot. */
  changeRetentionMs: 24 * hourMs,
  /** Old changes removed at a time: a short statement, often enough for 80 changes a second. */
  changesPerTrimMax: 5_000,
  changeTrimIntervalMs: minuteMs,
  /** A million revoked passports are 21 MB of a snapshot; the rest is for gates with large catalogs. */
  snapshotBytesMax: 256 * 1024 * 1024,
  /**
   * Each is read as a whole and holds a database connection. One account takes half of them; its next ones
   * wait, and beyond that its sidecars get 503 `overloaded` and come again.
   */
  snapshotsAtOnceMax: 4,
  snapshotsPerAccountMax: 2,
  snapshotsWaitingPerAccountMax: 16,
  /**
   * Batches of records that are taken at once, of all accounts and of one; those that wait are held in
   * memory, at most one of each sidecar.
   */
  ingestsAtOnceMax: 4,
  ingestsPerAccountMax: 2,
  ingestsWaitingPerAccountMax: 32,
  /**
   * Starts of one sidecar of which the last record is remembered: it ships the oldest first, and has few that
   * are not shipped to the end.
   */
  epochsPerSidecarMax: 32,
  /**
   * A sidecar that was not heard of for so long is forgotten, with its epochs; one that comes back connects
   * like a new one.
   */
  sidecarForgottenMs: 30 * dayMs,
  /**
   * Connected sidecars of one account, and as many silent ones remembered: more than a fleet has, and no
   * flood of rows.
   */
  sidecarsPerAccountMax: 256,
  /** Silent sidecars forgotten by one that connects: they go faster than they come. */
  sidecarsPerTrimMax: 10,
  /** Loading one of that size over a slow line. */
  snapshotMsMax: minuteMs,
  /** What was applied since is written behind the snapshot on disk this often. */
  snapshotFileIntervalMs: 2 * secondMs,
  /**
   * Changes behind the snapshot on disk; past it a fresh snapshot replaces them: about 40 MB, replayed in a
   * few seconds.
   */
  snapshotFileChangesMax: 100_000,
  /**
   * One answer to a pull: `changesPerPullMax` gates, each with its longest domains and the longest keys of
   * its catalog, are 105 MB.
   */
  changesBytesMax: 128 * 1024 * 1024,
  /**
   * Calls from a sidecar to the control plane at once: one pull, one acknowledgement, one batch, one lease
   * call, one to spare.
   */
  controlPlaneConnectionsMax: 5,
  /**
   * Settlements on their way at once, on connections of their own: those that hang hold up no pull. Each
   * waits for one transaction: at 5 ms that is 5,000 a second, more than one replica commits.
   */
  settlementConnectionsMax: 25,
  /** With a push the pull is the check behind it, and the proof that nothing was missed. */
  pullIntervalMs: secondMs,
  /**
   * Between two pulls, however much asks for one: a flood of bad messages on the bus must not become a flood
   * of calls.
   */
  pullGapMsMin: 25,
  /**
   * Pushes that a sidecar looks at in a second: with 50 us for a signature a twentieth of its thread.
   * Heartbeats and 80 changes a second stay far below.
   */
  pushesPerSecondMax: 1_000,
  /** Where the snapshot on disk cannot be written, it is tried again with a fresh one this often. */
  snapshotFileRetryMs: minuteMs,
  /**
   * The standing of a passport is kept this long past its expiry: who revoked it and who checks it may have
   * different clocks.
   */
  standingKeptMs: hourMs,
  /**
   * Slots of the table of standings that are looked through with each change for expired passports: all of a
   * million in one go would stop decisions.
   */
  standingSlotsPerSweep: 1_000,
  /** Replicas of the control plane whose heartbeats a sidecar tells apart. */
  heartbeatReplicasMax: 64,
  /** First and longest pause between two looks for acknowledgements of other replicas. */
  ackLookFirstMs: 25,
  ackLookLastMs: 200,
  /** Verified passports that a sidecar remembers: about 1.5 KB each. */
  verifiedPassportsMax: 50_000,
  /**
   * Threads that verify, per listening thread: about 10 MB each, and four check 70,000 unseen passports a
   * second.
   */
  verifyThreadsMax: 4,
  /**
   * A decision of the control plane that others were quicker than is made anew, with what they have left; the
   * last time it asks nobody and answers `quota_unavailable` instead. Two are the rule, because who lost once
   * knows what is left.
   */
  enforcementTriesMax: 5,
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
  /**
   * One turn of a sidecar's event loop begins no further scan after this; a single one takes 0.1 to 10 ms.
   */
  piiTurnMsMax: 5,
  /**
   * One record in the spool as JSON: a usual one has 700 characters, one full of long pointers stays below
   * this.
   */
  spoolRecordCharsMax: 128 * 1024,
  /** Records of one event-loop turn, written with one call: about 5,000. Past it the sidecar sheds load. */
  spoolTurnBytesMax: 4 * 1024 * 1024,
  /** After a write that failed so much has to fit before records are taken again: about 90 of them. */
  spoolProbeBytes: 64 * 1024,
  /** A spool whose folder was removed is found out within this time also where nobody asks for a decision. */
  spoolLookMs: secondMs,
  /**
   * A sidecar whose spool took no records is ready again so long after it takes them: balancers look every
   * few seconds.
   */
  spoolSteadyMs: 5 * secondMs,
  /** The shipper reads the spool in steps of this size: few calls for a batch, and little is read twice. */
  spoolReadBytes: 512 * 1024,
  /**
   * How often a part of the spool that cannot be read is tried, over some 5 s, before it stops holding up all
   * later records.
   */
  spoolReadTries: 8,
  /** One file of the spool. */
  spoolSegmentBytesMax: 8 * 1024 * 1024,
  /** Not yet shipped records on disk; past it the sidecar answers 503 `overloaded` rather than lose one. */
  spoolBytesMax: 1024 * 1024 * 1024,
  /** How long a record may wait for company before it is shipped. */
  shipIntervalMs: 100,
  /** Retry of the shipper and of the pull, doubling from first to last. */
  retryFirstMs: 50,
  retryLastMs: secondMs,
  /** A call from one of our programs to another that brings no answer is given up after this. */
  internalCallMsMax: 10 * secondMs,
  /** DRAIN_GRACE_MS: longer than any load balancer takes to notice that `/readyz` fails. */
  drainGraceMsMax: 5 * minuteMs,
  /** After SIGTERM, and DRAIN_GRACE_MS: time for requests in flight and for the spool to be shipped. */
  drainMsMax: 10 * secondMs,
  /** `expires_in_days` and `expires_in` of a passport (contract §3). */
  passportDaysDefault: 90,
  passportDaysMax: 3_650,
  /** More than there are scopes, aliases included. */
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
  /** A lease call with as many of both: 300 characters each at most. */
  leaseCallBytesMax: 256 * 1024,
  /**
   * Of what is left in a window after all that is needed now, one part in so many is leased ahead. With fewer
   * than 17 units left nobody gets one that somebody else may need first, so that several sidecars use a
   * window to its last unit.
   */
  leaseAheadPart: 16,
  /**
   * Leases that one PERMIT takes from: of a gate and of a passport, by minute, hour, day and month, requests
   * and money.
   */
  leasesPerRecordMax: 16,
  /**
   * Lease calls of a holder between two in which the ledger adds up what its records took: a fraction of a
   * minute at a busy gate.
   */
  leaseCallsPerFold: 32,
  /**
   * A holder that holds nothing any more and has not called for so long is forgotten: longer than any call is
   * repeated.
   */
  leaseHolderKeptMs: dayMs,
  /**
   * Each keeps its last answer, tens of KB. Only the newest process of a sidecar may call: this many restarts
   * back, none is under way any more.
   */
  leaseHoldersPerSidecarMax: 64,
  /** Silent holders forgotten by a new one: they go faster than they come. */
  leaseHoldersPerTrimMax: 10,
  /**
   * A PERMIT that arrives this long after its window has ended counts for no alert any more: nobody could act
   * on one.
   */
  spendCountedMs: 7 * dayMs,
  /**
   * A sidecar leases so much ahead near a limit, by what was taken of late: many times what a call takes, and
   * a fraction of a second for others to miss it.
   */
  leaseAheadMs: 200,
  /** And so much far from it: a restart of the control plane or of PostgreSQL takes less. */
  leaseReserveMs: 5 * secondMs,
  /**
   * The pace by which that is counted is the mean of one to two such spans: requests that ended are forgotten
   * after a second.
   */
  leasePaceMs: 500,
  /** Demand is measured over no less: the requests of one event-loop turn are no rate. */
  leaseSampleMsMin: 20,
  /**
   * Units that were not needed for so long go back, looked for this often: after 0.6 to 1.4 s, so within 2 s
   * with the call (contract §6).
   */
  leaseIdleMs: 600,
  leaseSweepMs: 200,
  /**
   * A window that has run dry is asked about again after this: while it is dry, a flood of requests makes 40
   * calls a second, not 500.
   */
  leaseDryPauseMs: 25,
  /**
   * One attempt of a lease call or a settlement: the next one is answered the same, so there is no use in
   * patience.
   */
  quotaCallMsMax: secondMs,
  /**
   * At its end a sidecar gives back what it holds for at most so long; the rest is free when its window ends.
   */
  leaseStopMsMax: secondMs,
  /** Requests that wait for leases: a quarter second at 20,000 a second. More are blocked at once. */
  leaseWaitersMax: 5_000,
  /**
   * Windows of counters that a sidecar knows of, about 1 KB each: as many passports as it remembers, with a
   * minute and a day each.
   */
  leasedWindowsMax: 100_000,
  /**
   * Windows that are looked at to make room for one: most of those that were not used of late hold nothing.
   */
  leasedWindowsPerTrimMax: 16,
  /**
   * Which windows a passport draws on at a gate, remembered so often; then all of that is found out again.
   */
  leaseViewsMax: 100_000,
  /** Windows of the quota ledger in one statement: all of them stay locked until it commits. */
  quotaWindowsPerCallMax: 500,
  /** Ended windows removed by a call that makes new ones. */
  quotaWindowsPerTrimMax: 1_000,
  /**
   * An ended window is kept this long: clocks of replicas that differ less, or are set back by less, still
   * find what they had counted.
   */
  quotaWindowKeptMs: hourMs,
  /** Endpoints of one account in one mode: each multiplies what every event of the account writes. */
  webhooksPerAccountMax: 16,
  /**
   * Secrets of one endpoint that sign on beside the newest: whose answer got lost rolls again, twice or
   * thrice; each makes every delivery's header longer.
   */
  webhookPreviousSecretsMax: 4,
  /** A longer URL is cut by something on its way. */
  webhookUrlCharsMax: 2_048,
  /**
   * One attempt, from the name of the host to the last byte of the answer: a receiver that needs longer
   * should answer first and work then.
   */
  webhookTimeoutMs: 10 * secondMs,
  /** After this the delivery of a replica that died in the middle of an attempt is anybody's again. */
  webhookLockMs: 30 * secondMs,
  /** Of an answer that much is kept in the log of attempts. */
  webhookAnswerBytesMax: 1024,
  /**
   * Attempts at once to one endpoint from one replica; halved for each that has failed in a row, down to one.
   */
  webhookConcurrencyMax: 16,
  /**
   * Attempts at once from one replica, and as many connections to one host: endpoints that share it do not
   * wait for each other.
   */
  webhookAttemptsAtOnceMax: 512,
  /**
   * One endpoint takes at most this part of the attempts that are left: however many hang at once, the next
   * one still finds some.
   */
  webhookRoomShares: 8,
  /**
   * A connection without a request is closed after this, whatever its server asks for: strangers choose how
   * many hosts there are.
   */
  webhookKeepAliveMs: 2 * secondMs,
  /**
   * Endpoints that failed last and have nothing under way, remembered so that they get fewer attempts at
   * once.
   */
  webhookLoadsMax: 10_000,
  /**
   * Queues looked at in one step, from where the last step ended: with thousands of failing endpoints a step
   * stays short.
   */
  webhookQueuesPerLookMax: 64,
  /** An idle replica looks for due deliveries this often. */
  webhookPollMs: 100,
  /**
   * `Retry-After` of an endpoint counts up to here: one that wants more has made a mistake, or is disabled
   * soon.
   */
  webhookRetryAfterMsMax: hourMs,
  /** An endpoint at which no attempt has succeeded for so long is disabled. */
  webhookFailingMsMax: 3 * dayMs,
  /** An endpoint without a URL from which nobody has fetched for so long is disabled. */
  webhookUnreadMsMax: hourMs,
  /** Attempts of one delivery that are answered: two full schedules. */
  webhookAttemptsShownMax: 20,
  /** Deliveries that one call of `recover` sends again; the answer says whether there are more. */
  webhookRecoveredPerCallMax: 10_000,
  /** Events, deliveries and attempts are kept for so long. */
  webhookDeliveryKeptMs: 30 * dayMs,
  /** Old ones removed at a time, and how often: faster than they come, in short statements. */
  webhookDeliveriesPerTrimMax: 5_000,
  webhookTrimIntervalMs: minuteMs,
  /**
   * At the stop of a replica: time for the attempts under way; the others are given back and go out again
   * elsewhere.
   */
  webhookDrainMs: 3 * secondMs,
  /**
   * Head and body of one request must have arrived within this; a client that trickles holds a connection no
   * longer.
   */
  requestReadMsMax: 30 * secondMs,
  /**
   * A record of a sidecar may carry a time this far ahead (contract §9): clocks that keep time differ by
   * less.
   */
  recordAheadMsMax: minuteMs,
  /**
   * Records that an export fetches and hands over at once: about 200 KB, which a line of 10 KB/s takes within
   * exportStallMsMax.
   */
  exportSliceRowsMax: 200,
  /** Each running export keeps a database connection and a snapshot; the others get 503 `overloaded`. */
  exportsAtOnceMax: 4,
  /** No account keeps all others from exporting. */
  exportsPerAccountMax: 2,
  /**
   * A reader of an export that takes nothing for so long is disconnected, because its snapshot holds up
   * clean-up.
   */
  exportStallMsMax: 20 * secondMs,
  /**
   * While an export waits for its reader its connection says something this often, so that it is not taken
   * for dead.
   */
  exportPulseMs: 3 * secondMs,
  /** So long a snapshot may hold up clean-up at most: a gigabyte at 50 KB/s. */
  exportMsMax: 6 * hourMs,
  /**
   * Entries of the audit that an export fetches and hands over at once; one has about 1.5 KB, and at most 20.
   */
  auditExportSliceRowsMax: 100,
  /**
   * `before` and `after` of an audit entry: a passport with a page of metadata fits; what is larger is named
   * by its hash.
   */
  auditStateBytesMax: 8 * 1024,
  /** `last_used_at` of an API key is written at most this often (contract §2). */
  keyUseWriteIntervalMs: minuteMs,
  /**
   * One line of an export: a record with the 32 longest pointers that a body can give rise to, every
   * character escaped.
   */
  exportLineBytesMax: 4 * 1024 * 1024,
  /**
   * From the publication of a signing key to its first signature (contract §11): until then every replica,
   * every sidecar and every cached JWKS has learned of it.
   */
  signingKeyLeadMs: minuteMs,
  /** How long an answered JWKS may be kept. */
  jwksAgeMsMax: 30 * secondMs,
  /**
   * Each replica reads the signing keys this often: how long a compromised one may go on signing where the
   * push got lost.
   */
  signingKeysReadIntervalMs: secondMs,
  /** A JWKS read from a file: several thousand keys of about 300 bytes. */
  jwksBytesMax: 1024 * 1024,
  /** SHA-256 of API keys that were recently presented, so that a caller's header is hashed once. */
  presentedKeysMax: 1_000,
  /**
   * Connections of one program to PostgreSQL: two replicas and a console stay well below its default of 100.
   */
  databaseConnectionsMax: 28,
  /**
   * Searches of strangers that run at once, each on a connection: at 5 ms each 400 a second. The next so many
   * wait, which is a quarter second at most, and what comes beyond is answered 503 `overloaded`.
   */
  discoveriesAtOnceMax: 2,
  discoveriesWaitingMax: 64,
  /** Offers that a search passes over by offset; a cursor leads on from there. */
  discoveryOffsetMax: 1_000,
  /** A cursor holds a figure, a gate and a permission key: at most 300 characters. */
  discoveryCursorCharsMax: 512,
  /**
   * Transactions that decide, of all accounts and of one: they may wait for each other's locks, each on a
   * connection. The other connections look keys up, grant leases and take records.
   */
  decisionsAtOnceMax: 10,
  decisionsPerAccountMax: 6,
  /** Decisions of one account that wait for their turn: at 2 ms each, more than a caller would wait for. */
  decisionsWaitingPerAccountMax: 1_024,
  /**
   * A database that does not even accept a connection is away: the caller gets 503 while it still waits for
   * an answer.
   */
  databaseConnectMsMax: 5 * secondMs,
  /**
   * Attempts to reach the database at start, with pauses that double up to the last: about half a minute,
   * then the program gives up.
   */
  databaseStartTries: 10,
  databaseStartPauseFirstMs: 100,
  databaseStartPauseLastMs: 8 * secondMs,
  /**
   * One statement, and one pause inside a transaction; past it PostgreSQL ends it, so that no lock is held
   * for ever.
   */
  databaseStatementMsMax: 30 * secondMs,
  /**
   * A connection on which nothing passes for so long, a statement or a transaction open, is taken for dead;
   * its caller gets 503.
   */
  databaseSilenceMsMax: 10 * secondMs,
  /**
   * An idle connection is closed well before it could be taken for dead, and opened again when it is needed.
   */
  databaseIdleMsMax: 5 * secondMs,
  /** The statements of a migration may rewrite a table, and replicas wait for each other. */
  databaseMigrationMsMax: 10 * minuteMs,
  /**
   * `/readyz` says that the database is away when it has not answered for so long: below the usual patience
   * of a prober.
   */
  readinessMsMax: 2 * secondMs,
  /**
   * `agent-trust healthcheck` waits for an answer so long: whoever runs it, such as Docker, has a patience of
   * its own.
   */
  healthcheckMsMax: 3 * secondMs,
  /** Bounds of the histogram of decisions: from a warm decision, some 20 us, to beyond the deadline. */
  decisionBucketsMs: [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500],
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
mustHold(
  limits.streamMessageBytesMax > limits.bodyBytesMax,
  'a frame of a stream that is too large gets an answer',
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
mustHold(limits.spoolSegmentBytesMax * 4 < limits.spoolBytesMax, 'a spool is many segments');
mustHold(
  limits.spoolTurnBytesMax <= limits.spoolSegmentBytesMax,
  'the records of one turn fit in one segment',
);
mustHold(
  limits.piiFindingsMax * limits.piiPointerCharsMax * '\\u0000'.length + 4_096 <= limits.spoolRecordCharsMax,
  'the largest legal record can be spooled, with every character of a pointer escaped',
);
mustHold(
  limits.spoolRecordCharsMax * 3 + 1_024 < limits.spoolReadBytes,
  'the largest record is read in one step',
);
mustHold(
  limits.spoolRecordCharsMax * 3 * 2 < limits.ingestBodyBytesMax,
  'the largest record fits in a batch as UTF-8',
);
mustHold(
  limits.jwksAgeMsMax + 10 * limits.signingKeysReadIntervalMs < limits.signingKeyLeadMs,
  'a cached JWKS of the slowest replica holds every key that signs',
);
mustHold(
  limits.quotaWaitMsMax < limits.decisionDeadlineMs,
  'a request whose wait for units fails still gets a decision',
);
mustHold(
  limits.catchUpMsMax + limits.quotaWaitMsMax < limits.decisionDeadlineMs,
  'a request that waits for a catch-up, and then for units, still gets a decision',
);
mustHold(
  limits.loopTickMs * 5 <= limits.loopStopMsMax,
  'a loop that is merely busy does not count as stopped',
);
mustHold(
  Math.max(2 * limits.leaseIdleMs + limits.leaseSweepMs, 2 * (limits.leasePaceMs + limits.leaseSweepMs)) <=
    1.5 * secondMs,
  'idle units are returned early enough to be available again within 2 s',
);
mustHold(
  limits.settlementAgeMsMax > 10 * limits.decisionDeadlineMs &&
    limits.settlementAgeMsMax < limits.permitKeyKeptMs,
  'a settlement that is refused for its age was abandoned long ago, and its void is kept for longer',
);
mustHold(
  2 * limits.spoolRecordCharsMax * 3 < limits.settlementCallBytesMax,
  'one settlement fits into a call, whatever its record holds',
);
mustHold(
  limits.leaseStopMsMax * 2 < limits.drainMsMax,
  'a stopping sidecar returns its units and has time left to ship records',
);
mustHold(limits.exportStallMsMax < limits.exportMsMax, 'an export may stall and resume');
mustHold(
  limits.databaseIdleMsMax * 2 <= limits.databaseSilenceMsMax,
  'an idle connection is closed in order, not cut in the moment of its next use',
);
mustHold(
  limits.exportPulseMs * 2 < limits.databaseSilenceMsMax,
  'an export that waits for its reader is not mistaken for a dead database',
);
mustHold(
  limits.idempotencyWaitMsMax < limits.databaseSilenceMsMax,
  'a duplicate that waits is not mistaken for a dead database',
);
mustHold(
  limits.auditStateBytesMax * 2 * 2 < limits.exportLineBytesMax,
  'an audit entry fits in a line of an export, its states written out in full',
);
mustHold(limits.exportsPerAccountMax < limits.exportsAtOnceMax, 'one account cannot occupy all exports');
mustHold(
  limits.decisionsAtOnceMax +
    limits.exportsAtOnceMax +
    limits.discoveriesAtOnceMax +
    limits.snapshotsAtOnceMax +
    limits.ingestsAtOnceMax +
    4 <=
    limits.databaseConnectionsMax,
  'decisions that wait for each other leave connections for other work',
);
mustHold(limits.decisionsPerAccountMax < limits.decisionsAtOnceMax, 'an account leaves turns for the others');
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
  limits.quotaWindowsPerTrimMax >= 2 * limits.quotaWindowsPerCallMax,
  'ended windows are deleted faster than new ones are created',
);
mustHold(
  limits.idempotencyWaitMsMax < limits.databaseStatementMsMax,
  'a duplicate gives up waiting before its statement is ended',
);
mustHold(
  2 * limits.webhookTimeoutMs < limits.webhookLockMs,
  'an attempt ends and is recorded well before its claim on the delivery expires',
);
mustHold(
  limits.webhookDrainMs < limits.drainMsMax,
  'the attempts in flight can finish during an orderly stop',
);
mustHold(
  limits.webhookConcurrencyMax * limits.webhookRoomShares < limits.webhookAttemptsAtOnceMax,
  'some busy endpoints have all the attempts they may have',
);
mustHold(
  limits.readinessMsMax < limits.healthcheckMsMax,
  'a health check receives the reason why the control plane is not ready',
);
