import {
  type BrokenChain,
  brokenNamedMax,
  type ChainFault,
  renderBroken,
} from '../../shared/attestation/broken-chains.ts';
import type { ExportChain, ExportEnd } from '../../shared/attestation/export.ts';
import { headKey } from '../../shared/log/entry.ts';
import type { Attestation } from '../../shared/model/attestation.ts';

/** A chain with the number that its records use for it. */
export interface NumberedChain extends ExportChain {
  readonly number: number;
  /** Of the existing records, whatever the head row says. */
  readonly highest: number;
}

/**
 * Follows the chains of one export record by record, and passes on the records that are in place. A chain
 * stops at the first contradiction with its head row or its links: the rest is not exported, and the export's
 * end names the chain. Signatures are checked by the verifier of the export.
 */
export interface ChainWalk {
  /** What the transparency log has of the chains that are read next: hashes by `headKey`. */
  logged: ReadonlyMap<string, string>;
  /** The next row in the order of the export; null if unreadable. */
  take(chain: NumberedChain, sequence: number, attestation: Attestation | null): void;
  /** All rows up to this one were passed on. */
  reach(chain: NumberedChain, sequence: number): void;
  /** A chain that is broken in another way. */
  note(broken: BrokenChain): void;
  hasStopped(chain: NumberedChain): boolean;
  end(): ExportEnd;
}

/**
 * `take` gets each record in its place; with the chain that begins with it, or that alone where its records
 * are all in archives.
 */
export function walkChains(
  take: (attestation: Attestation | null, begins: NumberedChain | null) => void,
): ChainWalk {
  let current: NumberedChain | null = null;
  let isStopped = false;
  let next = 0;
  let previousHash: string | null = null;
  const broken: BrokenChain[] = [];
  const count = { chains: 0, records: 0, unnamed: 0 };

  function note(each: BrokenChain): void {
    if (broken.length < brokenNamedMax) broken.push(each);
    else count.unnamed += 1;
  }

  function stop(chain: NumberedChain, fault: ChainFault): void {
    isStopped = true;
    note({ chainId: chain.chainId, fault, sequence: next });
  }

  function enter(chain: NumberedChain): void {
    if (current?.number === chain.number) return;
    current = chain;
    isStopped = false;
    next = chain.firstSequence;
    previousHash = chain.previousAttestationHash;
  }

  const walk: ChainWalk = {
    logged: new Map(),
    take: (chain, sequence, attestation) => {
      enter(chain);
      if (isStopped) return;
      const logged = walk.logged.get(headKey({ chainId: chain.chainId, sequence }));
      const fault = faultOf(chain, sequence, attestation, { next, previousHash, logged });
      if (fault !== null || attestation === null) return stop(chain, fault ?? 'unreadable');
      const isFirst = sequence === chain.firstSequence;
      take(attestation, isFirst ? chain : null);
      if (isFirst) count.chains += 1;
      count.records += 1;
      next = sequence + 1;
      previousHash = attestation.hash;
      if (sequence === chain.lastSequence && chain.highest > sequence) stop(chain, 'beyond_head');
    },
    reach: (chain, sequence) => {
      enter(chain);
      if (chain.lastSequence < chain.firstSequence) {
        take(null, chain);
        count.chains += 1;
      }
      if (!isStopped && next <= sequence) stop(chain, missing(chain, next));
    },
    note,
    hasStopped: (chain) => isStopped && current?.number === chain.number,
    end: () => ({
      chains: count.chains,
      records: count.records,
      broken: broken.map(renderBroken),
      brokenUnnamed: count.unnamed,
    }),
  };
  return walk;
}

function faultOf(
  chain: NumberedChain,
  sequence: number,
  attestation: Attestation | null,
  {
    next,
    previousHash,
    logged,
  }: {
    readonly next: number;
    readonly previousHash: string | null;
    readonly logged: string | undefined;
  },
): ChainFault | null {
  if (sequence > next) return missing(chain, next);
  if (sequence < next) return 'repeated';
  if (attestation === null) return 'unreadable';
  if (attestation.previousAttestationHash !== previousHash) return 'link_broken';
  if (sequence === chain.lastSequence && attestation.hash !== chain.lastHash) return 'head_differs';
  return logged !== undefined && logged !== attestation.hash ? 'log_differs' : null;
}

const missing = ({ highest }: NumberedChain, next: number): ChainFault =>
  next > highest ? 'missing_at_end' : 'missing_in_middle';
