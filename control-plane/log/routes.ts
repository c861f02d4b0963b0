import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { entryBundle, entryOf } from '../../shared/log/entry.ts';
import { parseTileNumber, tileLevelMax, tileWidth, widthOf } from '../../shared/log/tiles.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams } from '../http/path-id.ts';
import { fairShare } from '../storage/fair-share.ts';
import type { LogDeps } from './deps.ts';
import { logLimits } from './limits.ts';
import { type PublishedLog, readEntries, readLogs, readTiles } from './log-store.ts';
import { proveAttestation } from './prove-head.ts';

const api = operationsOf('Audit', {
  getAttestationProof: {
    scope: 'attestations:read',
    summary: 'Prove that a record is in the transparency log (C2SP tlog-proof)',
    description:
      'The first logged head of its chain at or behind the record, with its path to the newest checkpoint that the quorum of the witnesses cosigned. ' +
      'The records between both are in an export. docs/log.md describes how to verify it.',
    contents: { 'text/plain': Type.String() },
    errors: ['attestation_not_found', 'proof_not_ready'],
  },
});

const config = { scope: null } as const;
const immutable = 'public, max-age=31536000, immutable';
const octets = 'application/octet-stream';
const plainText = 'text/plain; charset=utf-8';

/** `GET /attestations/:id/proof`, below `/v1`. */
export function logProofRoutes(deps: LogDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/attestations/:id/proof',
      {
        config: api.getAttestationProof,
        schema: { params: IdParams, response: { 200: Type.String() } },
        serializerCompiler: () => String,
      },
      async (request, reply) => {
        const proof = await proveAttestation(deps, callerOf(request), request.params.id);
        return reply.header('cache-control', 'no-store').type(plainText).send(proof);
      },
    );
  };
}

/**
 * The log for everybody, without a key, as C2SP tlog-tiles: the first one below `{PUBLIC_URL}/log/`, the one
 * that a recovery began below `/log/2/`, and so on, as their origins say. A tile is served up to the size
 * that was published: what is served once at an address never changes, so caches may keep it.
 */
export function logRoutes(deps: LogDeps): FastifyPluginAsyncTypebox {
  const reader = new LogReader(deps);
  return async (app) => {
    for (const prefix of ['/log', '/log/:log']) {
      app.get<{ Params: { log?: string } }>(`${prefix}/checkpoint`, { config }, async (request, reply) => {
        const log = await reader.published(parseLog(request.params.log));
        if (log?.published == null) throw notThere('The log has no checkpoint yet. Try again shortly.');
        return reply.header('cache-control', 'no-store').type(plainText).send(log.published);
      });
      app.get<{ Params: { log?: string; '*': string } }>(
        `${prefix}/tile/*`,
        { config },
        async (request, reply) => {
          const asked = parseTilePath(request.params['*']);
          const log = asked === null ? null : await reader.published(parseLog(request.params.log));
          const bytes = asked === null || log === null ? null : await reader.tile(log, asked);
          if (bytes === null) throw notThere('The published log has no such tile.');
          return reply.header('cache-control', immutable).type(octets).send(bytes);
        },
      );
    }
  };
}

/** The first one has no number in its address; 0, which no log has, for what is none. */
const parseLog = (text: string | undefined): number =>
  text === undefined ? 1 : /^(?:[2-9]|[1-9]\d{1,3})$/.test(text) ? Number(text) : 0;

const notThere = (message: string): ApiError => new ApiError('route_not_found', { message });

interface AskedTile {
  /** Null: of entries. */
  readonly level: number | null;
  readonly number: number;
  /** Of a partial tile; else 256. */
  readonly width: number;
}

/** `<L>/<N>[.p/<W>]`, with `entries` for `<L>`. */
function parseTilePath(path: string): AskedTile | null {
  const [, kind = '', numberPath = '', widthText] =
    /^(entries|\d{1,2})\/((?:x\d{3}\/)*\d{3})(?:\.p\/([1-9]\d{0,2}))?$/.exec(path) ?? [];
  const number = parseTileNumber(numberPath);
  const level = kind === 'entries' ? null : Number(kind);
  const width = widthText === undefined ? tileWidth : Number(widthText);
  if (number === null || (widthText !== undefined && width >= tileWidth)) return null;
  if (level !== null && (level > tileLevelMax || String(level) !== kind)) return null;
  return { level, number, width };
}

class LogReader {
  readonly #deps: LogDeps;
  readonly #share = fairShare<'everybody'>({
    atOnceMax: logLimits.readsAtOnceMax,
    perOwnerMax: logLimits.readsAtOnceMax,
    waitingPerOwnerMax: logLimits.readsWaitingMax,
    waitMsMax: logLimits.readTurnMsMax,
  });
  /** Full tiles, the one that was asked for last at the end. */
  readonly #kept = new Map<string, Uint8Array>();
  #logs: { readonly all: readonly PublishedLog[]; readonly atMs: number } | null = null;
  #reading: Promise<readonly PublishedLog[]> | null = null;

  constructor(deps: LogDeps) {
    this.#deps = deps;
  }

  /** As it was `checkpointKeptMs` ago or later. Null: there is none with this number. */
  async published(number: number): Promise<PublishedLog | null> {
    const logs = await this.#published();
    return logs.find(({ log }) => log === number) ?? null;
  }

  /** One read at a time. */
  async #published(): Promise<readonly PublishedLog[]> {
    const nowMs = this.#deps.clock.monotonic();
    const known = this.#logs;
    if (known !== null && nowMs - known.atMs < logLimits.checkpointKeptMs) return known.all;
    this.#reading ??= this.#share('everybody', () => readLogs(this.#deps.sql))
      .then((all) => {
        this.#logs = { all, atMs: nowMs };
        return all;
      })
      .finally(() => {
        this.#reading = null;
      });
    return this.#reading;
  }

  /** Null: the tree that was published has no such tile, or a narrower one. */
  async tile(log: PublishedLog, { level, number, width }: AskedTile): Promise<Uint8Array | null> {
    const name = { level: level ?? 0, number };
    if (widthOf(name, log.publishedSize) < width) return null;
    const key = `${log.log}/${level}/${number}`;
    const kept = this.#kept.get(key);
    if (kept !== undefined) {
      this.#kept.delete(key);
      this.#kept.set(key, kept);
      return level === null
        ? kept.subarray(0, width * (kept.length / tileWidth))
        : kept.subarray(0, width * 32);
    }
    const bytes = await this.#share('everybody', () => this.#read(log, { level, number, width }));
    if (bytes !== null && width === tileWidth) this.#keep(key, bytes);
    return bytes;
  }

  async #read(
    { log, publishedSize }: PublishedLog,
    { level, number, width }: AskedTile,
  ): Promise<Uint8Array | null> {
    const { sql } = this.#deps;
    if (level === null) {
      const from = number * tileWidth;
      return entryBundle((await readEntries(sql, log, { from, to: from + width })).map(entryOf));
    }
    const tiles = await readTiles(sql, log, [{ level, number }], publishedSize);
    return tiles.get(`${level}/${number}`)?.subarray(0, width * 32) ?? null;
  }

  #keep(key: string, bytes: Uint8Array): void {
    this.#kept.set(key, Buffer.from(bytes));
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > logLimits.tilesKeptMax && oldest !== undefined) this.#kept.delete(oldest);
  }
}
