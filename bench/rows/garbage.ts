import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { must } from '../../shared/errors/assert.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { type Installation, install } from '../harness/installation.ts';
import { disturbanceOf, type Offered, offer, warmSecondsBefore } from '../harness/open-load.ts';
import { onlyPermits } from '../harness/permits.ts';
import type { Sent } from '../harness/requests.ts';
import { interleaved, ratios, type Side, summary } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { briefS } from '../harness/size.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { allShipped, benchGate, headersOf } from '../harness/warm-load.ts';
import { connectionsUsual, drive, lackOfWrk } from '../harness/wrk.ts';

/** The generator can send twice this; garbage included, it is nearly all that one core can answer. */
const shareOfPeak = 0.3;
/** Enough that no cache answers them. */
const garbageTokens = 5_000;

/** P10: good requests that are answered in time beside as many with garbage for a token, and without them. */
export async function garbage({ size, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 2, brief: 1 }[size];
  const secondsEach = { full: 2, quick: 1, brief: briefS }[size];
  const title = 'Good requests beside as many with garbage for a token, on one core';
  const base = { row: 'garbage', title, unit: 'PERMIT/s', rounds, secondsEach, isLoadFixed: true } as const;
  const reason = lackOfWrk();
  if (reason !== null) {
    return { ...base, lines: [], skipped: [{ side: 'everything', reason }], notes: [] };
  }
  const folder = newFolder('garbage');
  const installation = await install();
  try {
    const { gateId, passport, request } = await benchGate(installation);
    const asking = (token: string): Sent => ({
      url: `${installation.sidecarOrigin}/v1/gates/${gateId}/check`,
      headers: headersOf(installation),
      body: JSON.stringify({ passport: token, request }),
    });
    const good = asking(passport);
    const load = { ...good, scriptPath: join(folder, 'peak.lua') };
    if (size !== 'brief') await drive(load, secondsEach);
    const asked = { name: 'the peak', programs: [installation.sidecar], underWayMax: connectionsUsual };
    const { done, seconds } = await onlyPermits(asked, () => drive(load, Math.ceil(secondsEach * 1.5)));
    await allShipped(installation, [gateId]);
    const perSecond = Math.round((done / seconds) * shareOfPeak);
    const bad = Array.from({ length: garbageTokens }, (_, index) => asking(garbageLike(passport, index)));
    const offered: Offered[] = [];
    const of = { installation, gateId, folder, perSecond, offered };
    const beside = sideOf('beside as much garbage', { ...of, streams: [[good], bad] });
    const alone = sideOf('good requests alone', { ...of, streams: [[good]] });
    const figures = await interleaved([beside, alone], { rounds, seconds: secondsEach, say });
    const rates = (name: string) =>
      must(figures.get(name), 'both were measured').map((each) => each.perSecond);
    const ratio = summary(ratios(rates(beside.name), rates(alone.name)));
    return {
      ...base,
      lines: [
        tableLine(
          {
            name: beside.name,
            does: 'answers garbage too: BLOCK with a record, or 503 past its capacity',
            doesNot: '',
            target: null,
          },
          figures,
          beside.name,
        ),
        tableLine(
          { name: alone.name, does: '', doesNot: '', target: { name: 'orientation', wanted: null } },
          figures,
          beside.name,
        ),
      ],
      skipped: [],
      notes: notesAbout(perSecond),
      judged: [{ target: 'P10', figure: ratio.median, disturbed: disturbanceOf(offered) }],
    };
  } finally {
    await installation.stop();
    removeFolder(folder);
  }
}

const notesAbout = (perSecond: number): readonly string[] => [
  `Open loop: ${perSecond.toLocaleString('en-US')} good requests a second, ${shareOfPeak} of the peak, on both sides; on the one, as many with garbage besides, over other connections. A good request counts if its PERMIT comes within a second of the moment it was due.`,
  'Garbage: one third random text, one third a token whose signature is wrong, one third a token that names an unknown key; each of them another one.',
  'Load comes at a fixed rate, so that the cores busy are a result and no condition. Processor time is that of everything the sidecar does.',
];

/** Some of it looks like a passport up to the signature. */
function garbageLike(passport: string, index: number): string {
  const [header = '', claims = '', signature = ''] = passport.split('.');
  const random = (bytes: number) => randomBytes(bytes).toString('base64url');
  if (index % 3 === 0) return random(Math.floor(passport.length * 0.75));
  if (index % 3 === 1) return `${header}.${claims}.${random(Buffer.from(signature, 'base64url').length)}`;
  const unknownKey = { alg: 'EdDSA', typ: 'passport+jwt', kid: random(32) };
  return `${Buffer.from(JSON.stringify(unknownKey)).toString('base64url')}.${claims}.${signature}`;
}

function sideOf(
  name: string,
  of: {
    readonly installation: Installation;
    readonly gateId: string;
    readonly folder: string;
    readonly perSecond: number;
    readonly streams: readonly (readonly Sent[])[];
    readonly offered: Offered[];
  },
): Side {
  const { installation, gateId, folder, offered } = of;
  return {
    name,
    measure: async (seconds) => {
      const before = installation.sidecar.cpuSeconds();
      const streams = of.streams.map((requests) => ({ requests, perSecond: of.perSecond }));
      const results = await offer(streams, { folder, seconds, server: installation.sidecar });
      // The warm-up included.
      const coresBusy = (installation.sidecar.cpuSeconds() - before) / (warmSecondsBefore(seconds) + seconds);
      await allShipped(installation, [gateId]);
      offered.push(...results);
      const perSecond = must(results[0], 'the good ones are the first').permittedInTime / seconds;
      return { perSecond, perCpuSecond: perSecond / coresBusy, coresBusy };
    },
  };
}
