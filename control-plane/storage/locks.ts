/**
 * The advisory locks of the database: any numbers that nothing else in it uses, each for one thing, each held
 * to the end of its transaction. `test/unit/architecture.test.ts` makes sure that there are no others.
 */
export const advisoryLocks = {
  /** Migrations run on one replica at a time. */
  migrations: 7_236_501,
  /** All replicas make and rotate signing keys one after the other. */
  signingKeys: 7_236_502,
  /** Replicas that start at once make one account. */
  firstAccount: 7_236_503,
  /** One transaction at a time makes partitions of records. */
  recordPartitions: 7_236_506,
  /** Replicas start and end a change of MASTER_KEY one after the other. */
  masterKeys: 7_236_507,
  /** Outcomes that sidecars have shipped are applied in their order, by one replica at a time. */
  reportedOutcomes: 7_236_509,
} as const;

/**
 * Seeds of locks that are made of the hash of a text: they set the locks of one kind apart from those of
 * another.
 */
export const advisoryLockSeeds = {
  /** One lock for each idempotency key of an API key. */
  idempotencyKeys: 7_236_504,
  /** One lock for each chain of the audit, the last of its transaction. */
  auditChains: 7_236_505,
  /** One lock for each name of a resource of an account and mode that may be created only once. */
  newNames: 7_236_508,
  /** One lock for each epoch of a sidecar: shared by first lease calls of holders, exclusive for its end. */
  epochEnds: 7_236_510,
} as const;

/**
 * The one order in which a transaction takes the locks that several use cases share, so that no two wait for
 * each other: advisory locks by their names above, rows by their tables. Within a table rows are locked in
 * the order of a key, each said where it is done; by its bytes (`COLLATE "C"`) where the program or the
 * column has that order, because the database may sort as a language does. Rows that no other transaction can
 * see yet (an INSERT without ON CONFLICT) do not count; SKIP LOCKED never waits, but others may wait for its
 * rows. Tests watch every transaction of their databases for this order
 * (`test/support/database/lock-watch.ts`).
 */
export const lockOrder = [
  'migrations',
  'firstAccount',
  'masterKeys',
  'signingKeys',
  'reportedOutcomes',
  // The key of a call, before anything that the call does.
  'idempotencyKeys',
  // The name of what a call creates, so that nothing is locked while another creates it.
  'newNames',
  'epochEnds',
  'accounts',
  // A person with all owners, in the order of their ids; then what is theirs.
  'users',
  'invitations',
  'sessions',
  // Counted in statements of their own.
  'login_attempts',
  // An event of an identity provider before what it changes.
  'security_events',
  // Of passports, before these have them.
  'owner_standings',
  'issuers',
  'federations',
  // A passport is put into one under its lock.
  'wallets',
  'passports',
  'passport_wallets',
  'former_places',
  'unnamed_ends',
  'suspensions',
  'api_keys',
  'webhooks',
  'channels',
  'sidecar_epochs',
  // A batch reads them in an order of its own; a void holds none while it waits for one.
  'settlements',
  // Claimed in a statement of their own, in the order of the proofs.
  'used_proofs',
  // In the order of their ids; the sweep skips those that others have locked.
  'permit_outcomes',
  // Shared while an approval is opened under its policy, exclusive while it changes.
  'gates',
  // Those of a gate under its lock; a change of its policy ends them all.
  'standing_approvals',
  // What a holder has changes under the lock of its row; a void locks leases alone.
  'lease_holders',
  'quota_leases',
  'former_leases',
  // The upstream of a guard before its pins, which are taken in the order of their tools.
  'mcp_upstreams',
  'mcp_pins',
  // A transaction that lets several expire skips those that others have locked.
  'approvals',
  'chains',
  'recordPartitions',
  'record_names',
  'gate_use',
  'passport_use',
  // Shared by all records of a gate and minute; taken in the order of their key.
  'decision_counts',
  'quota_spend',
  // Of the one replica that writes the log, in a transaction of its own.
  'log_trees',
  'log_tiles',
  'logged_heads',
  // Many transactions share these four: they are locked for a statement or two before the commit.
  'quota_windows',
  'discovery_counts',
  'feeds',
  'auditChains',
] as const;
