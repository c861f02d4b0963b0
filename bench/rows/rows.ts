import type { Row } from '../harness/row.ts';
import { cold } from './cold.ts';
import { conditions } from './conditions.ts';
import { decide } from './decide.ts';
import { discover } from './discover.ts';
import { diverse } from './diverse.ts';
import { embedded } from './embedded.ts';
import { exportOf } from './export.ts';
import { federated } from './federated.ts';
import { garbage } from './garbage.ts';
import { growth } from './growth.ts';
import { holds } from './holds.ts';
import { ingest } from './ingest.ts';
import { keyed } from './keyed.ts';
import { latency } from './latency.ts';
import { leases } from './leases.ts';
import { lists } from './lists.ts';
import { batch, stream } from './many-checks.ts';
import { micro } from './micro.ts';
import { outage } from './outage.ts';
import { outcomes } from './outcomes.ts';
import { passport } from './passport.ts';
import { pii } from './pii.ts';
import { possession } from './possession.ts';
import { propagation } from './propagation.ts';
import { proxy } from './proxy.ts';
import { receipts } from './receipts.ts';
import { records } from './records.ts';
import { replay } from './replay.ts';
import { revocations } from './revocations.ts';
import { shadow } from './shadow.ts';
import { standings } from './standings.ts';
import { start } from './start.ts';
import { threads } from './threads.ts';
import { verify } from './verify.ts';
import { wallets } from './wallets.ts';
import { warm } from './warm.ts';
import { webhooks } from './webhooks.ts';
import { witnessed } from './witnessed.ts';

/** Every row, in the order in which they run. */
export const rows: readonly Row[] = [
  {
    name: 'warm',
    describe: 'decisions about a known passport beside other servers, one core each',
    targets: ['P1', 'P2', 'P3', 'P4'],
    seconds: { full: 200, quick: 37 },
    run: warm,
  },
  {
    name: 'diverse',
    describe: 'warm decisions about 1,000 passports, 50 gates and bodies of many shapes',
    targets: [],
    seconds: { full: 130, quick: 16 },
    onlyByName: 'quick',
    run: diverse,
  },
  {
    name: 'cold',
    describe: 'decisions about passports never seen, beside HAProxy',
    targets: ['P5'],
    seconds: { full: 80, quick: 33 },
    onlyByName: 'quick',
    run: cold,
  },
  {
    name: 'verify',
    describe: 'signature checks by the pool, one core',
    targets: ['P6'],
    seconds: { full: 40, quick: 7 },
    run: verify,
  },
  {
    name: 'decide',
    describe: 'decisions of a compiled gate beside cedar-wasm, in process',
    targets: ['P13'],
    seconds: { full: 14, quick: 13 },
    run: decide,
  },
  {
    name: 'passport',
    describe: 'checks of a passport beside agent-passport-system, in process',
    targets: ['P16'],
    seconds: { full: 22, quick: 4 },
    run: passport,
  },
  {
    name: 'possession',
    describe: 'decisions with a proof of possession beside the bare signature, in process',
    targets: ['P26'],
    seconds: { full: 14, quick: 3 },
    run: possession,
  },
  {
    name: 'federated',
    describe:
      'decisions about passports of other issuers, known ones beside our own, unknown ones beside HAProxy',
    targets: ['P27', 'P28'],
    // RSA signs 1,400 tokens a second.
    seconds: { full: 260, quick: 120 },
    onlyByName: 'quick',
    run: federated,
  },
  {
    name: 'records',
    describe: 'decisions with and without their records',
    targets: ['P7'],
    seconds: { full: 100, quick: 34 },
    run: records,
  },
  {
    name: 'revocations',
    describe: 'decisions among a million revoked passports',
    targets: ['P8'],
    seconds: { full: 210, quick: 18 },
    onlyByName: 'quick',
    run: revocations,
  },
  {
    name: 'outage',
    describe: 'decisions while Redis and control plane are down',
    targets: ['P9'],
    seconds: { full: 120, quick: 22 },
    onlyByName: 'quick',
    run: outage,
  },
  {
    name: 'threads',
    describe: 'two listening threads and one, on two cores',
    targets: ['P14'],
    seconds: { full: 180, quick: 60 },
    onlyByName: 'quick',
    run: threads,
  },
  {
    name: 'garbage',
    describe: 'good requests beside as many with garbage for a token',
    targets: ['P10'],
    seconds: { full: 80, quick: 32 },
    onlyByName: 'quick',
    run: garbage,
  },
  {
    name: 'leases',
    describe: 'limits on five windows, and calls for leases',
    targets: ['P12'],
    seconds: { full: 100, quick: 31 },
    onlyByName: 'quick',
    run: leases,
  },
  {
    name: 'latency',
    describe: 'waiting times in an open loop at half of the sustained peak',
    targets: ['P15'],
    seconds: { full: 190, quick: 30 },
    mayCoresSleep: true,
    run: latency,
  },
  {
    name: 'propagation',
    describe: 'a revocation on its way to four busy sidecars',
    targets: ['P17'],
    seconds: { full: 40, quick: 20 },
    onlyByName: 'quick',
    run: propagation,
  },
  {
    name: 'discover',
    describe: 'discovery among a million catalog entries',
    targets: ['P18'],
    seconds: { full: 150, quick: 11 },
    run: discover,
  },
  {
    name: 'lists',
    describe: 'pages among ten million attestations',
    targets: ['P18'],
    seconds: { full: 280, quick: 12 },
    run: lists,
  },
  {
    name: 'export',
    describe: 'export of a million records and its verification',
    targets: ['P19', 'P19 memory'],
    seconds: { full: 330, quick: 16 },
    run: exportOf,
  },
  {
    name: 'ingest',
    describe: 'records of sidecars, committed: both processor times, and the bytes of a record',
    targets: ['P11', 'P25'],
    seconds: { full: 150, quick: 25 },
    onlyByName: 'quick',
    run: ingest,
  },
  {
    name: 'holds',
    describe: 'decisions whose amount is held, and plain ones',
    targets: ['P29'],
    seconds: { full: 320, quick: 90 },
    onlyByName: 'quick',
    run: holds,
  },
  {
    name: 'conditions',
    describe: 'decisions at a gate with five conditions, and at one without',
    targets: ['P35'],
    seconds: { full: 320, quick: 90 },
    onlyByName: 'quick',
    run: conditions,
  },
  {
    name: 'shadow',
    describe: 'decisions at a gate that tries a policy beside its own',
    targets: [],
    seconds: { full: 320, quick: 90 },
    onlyByName: 'quick',
    run: shadow,
  },
  {
    name: 'wallets',
    describe: 'decisions about passports in wallets, and the calls for their leases',
    targets: ['P32'],
    seconds: { full: 240, quick: 60 },
    onlyByName: 'quick',
    run: wallets,
  },
  {
    name: 'receipts',
    describe: 'decisions with a receipt, and plain ones',
    targets: ['P33'],
    seconds: { full: 240, quick: 60 },
    onlyByName: 'quick',
    run: receipts,
  },
  {
    name: 'outcomes',
    describe: 'outcomes of held PERMITs, committed',
    targets: ['P30'],
    seconds: { full: 180, quick: 40 },
    onlyByName: 'quick',
    run: outcomes,
  },
  {
    name: 'witnessed',
    describe: 'from a decision to a checkpoint of the log that two of three witnesses cosigned, under load',
    targets: ['P31'],
    seconds: { full: 160, quick: 45 },
    onlyByName: 'quick',
    run: witnessed,
  },
  {
    name: 'replay',
    describe: 'records of an export, decided again on one core',
    targets: ['P34'],
    seconds: { full: 220, quick: 40 },
    onlyByName: 'quick',
    run: replay,
  },
  {
    name: 'stream',
    describe: 'decisions over streams and by single requests, one core',
    targets: ['P20'],
    seconds: { full: 130, quick: 22 },
    onlyByName: 'quick',
    run: stream,
  },
  {
    name: 'batch',
    describe: 'decisions in batches and by single requests, one core',
    targets: ['P21'],
    seconds: { full: 100, quick: 18 },
    onlyByName: 'quick',
    run: batch,
  },
  {
    name: 'embedded',
    describe: 'decisions in the process that asks and over HTTP, one core',
    targets: ['P23'],
    seconds: { full: 300, quick: 60 },
    onlyByName: 'quick',
    run: embedded,
  },
  {
    name: 'proxy',
    describe: 'nginx with forward auth and nginx alone, same core',
    targets: ['P22'],
    seconds: { full: 45, quick: 22 },
    run: proxy,
  },
  {
    name: 'keyed',
    describe: 'requests with an idempotency key, closed and open loop',
    targets: ['P24'],
    seconds: { full: 100, quick: 18 },
    onlyByName: 'quick',
    run: keyed,
  },
  {
    name: 'webhooks',
    describe: 'events to ten endpoints, one of them dead: throughput and delay',
    targets: [],
    seconds: { full: 120, quick: 14 },
    onlyByName: 'always',
    run: webhooks,
  },
  {
    name: 'micro',
    describe: 'the tricks of the hot path and their plain forms',
    targets: [],
    seconds: { full: 70, quick: 9 },
    onlyByName: 'always',
    run: micro,
  },
  {
    name: 'standings',
    describe: 'a million revocations at a sidecar: look-up, memory, snapshot',
    targets: [],
    seconds: { full: 20, quick: 9 },
    onlyByName: 'always',
    run: standings,
  },
  {
    name: 'start',
    describe: 'loading a program, with packed dependencies and as installed',
    targets: [],
    seconds: { full: 40, quick: 9 },
    onlyByName: 'always',
    run: start,
  },
  {
    name: 'pii',
    describe: 'the scan of a request for personal data, beside JSON.parse',
    targets: [],
    seconds: { full: 50, quick: 6 },
    onlyByName: 'always',
    run: pii,
  },
  {
    name: 'growth',
    describe: 'throughput and memory as gates, passports, revocations, requests and limits grow',
    targets: [],
    seconds: { full: 1800, quick: 240 },
    onlyByName: 'always',
    run: growth,
  },
];
