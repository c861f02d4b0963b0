import { open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { keyClaim } from '../../shared/attestation/decision-receipt.ts';
import { decodeBase64url, encodeBase64url } from '../../shared/crypto/base64url.ts';
import type { Ed25519, Signer } from '../../shared/crypto/ed25519.ts';
import { thumbprint } from '../../shared/crypto/keyset.ts';
import { must } from '../../shared/errors/assert.ts';
import type { SidecarId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { parseTime, type UnixMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { makeFolder } from '../../shared/runtime/make-folder.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import { type RetryPause, retryPause } from '../../shared/runtime/retry-pause.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';
import type { SidecarCertificate } from '../../shared/wire/evidence/decision-receipt.ts';
import { ControlPlaneError } from './control-plane-error.ts';
import { replicaLimits } from './limits.ts';

/** A key of this sidecar, and what the control plane says of it. */
export interface CertifiedKey {
  readonly signer: Signer;
  readonly certificate: SidecarCertificate;
}

interface ReceiptKeyDeps {
  readonly folder: string;
  readonly sidecarId: SidecarId;
  /** Null: this control plane certifies none, as of 0.2.0. */
  readonly certify: (claim: {
    readonly x: string;
    readonly signature: string;
  }) => Promise<SidecarCertificate | null>;
  readonly isConnected: () => boolean;
  /** Whether the feed says so of this key of purpose `attestation`. */
  readonly isCompromised: (kid: string) => boolean;
  readonly ed25519: Ed25519;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly random: Random;
  readonly logger: Logger;
}

/**
 * The key with which this sidecar signs receipts (contract §9), in its folder. The control plane certifies it
 * for a week, and every hour again: so a revoked one is replaced soon. A certificate is worth as much as the
 * key that signed it: once that is compromised, no receipt is issued until another one has.
 *
 *     made or read ──connected──> certified ──an hour, or its signer is compromised──> certified again
 *          ^                          └──revoked──┐
 *          └──────────────────────────────────────┘
 */
export class ReceiptKey {
  readonly #deps: ReceiptKeyDeps;
  #signer: Signer;
  #certified: CertifiedKey | null = null;
  #times: { readonly fromMs: number; readonly untilMs: number } = { fromMs: 0, untilMs: 0 };
  #renewAtMs = Number.NEGATIVE_INFINITY;
  #isTold = false;
  readonly #retry: RetryPause;
  readonly #repetition: Repetition;

  private constructor(deps: ReceiptKeyDeps, signer: Signer) {
    this.#deps = deps;
    this.#signer = signer;
    this.#retry = retryPause(deps.random, { firstMs: limits.retryFirstMs, lastMs: limits.retryLastMs });
    this.#repetition = repeat(() => this.#keepCertified());
  }

  static async start(deps: ReceiptKeyDeps): Promise<ReceiptKey> {
    return new ReceiptKey(deps, deps.ed25519.signer(await seedIn(deps)));
  }

  /** The newest; null: the control plane has certified none since the start. */
  get certified(): CertifiedKey | null {
    return this.#certified;
  }

  mayIssueAt(nowMs: UnixMillis): boolean {
    const { fromMs, untilMs } = this.#times;
    return fromMs <= nowMs && nowMs <= untilMs && !this.#isSignedInVain();
  }

  /** Up to when receipts may be issued as things are; null: none may be at this time. */
  untilMsAt(nowMs: UnixMillis): UnixMillis | null {
    return this.mayIssueAt(nowMs) ? (this.#times.untilMs as UnixMillis) : null;
  }

  stop(): Promise<void> {
    return this.#repetition.stop();
  }

  async #keepCertified(): Promise<number> {
    const { isConnected, clock, logger } = this.#deps;
    if (!isConnected()) return replicaLimits.certificateWaitMs;
    if (clock.monotonic() < this.#renewAtMs && !this.#isSignedInVain())
      return replicaLimits.certificateLookMs;
    try {
      const isThere = await this.#certify();
      this.#isTold = false;
      this.#retry.reset();
      if (!isThere) return replicaLimits.certificateAbsentMs;
      this.#renewAtMs = clock.monotonic() + replicaLimits.certificateRenewMs;
      return replicaLimits.certificateLookMs;
    } catch (error) {
      if (error instanceof ControlPlaneError && error.code === 'sidecar_key_revoked') await this.#replace();
      if (!this.#isTold)
        logger.warn({ err: error }, 'the key of this sidecar is not certified, so it issues no receipts yet');
      this.#isTold = true;
      return this.#retry.nextMs();
    }
  }

  async #certify(): Promise<boolean> {
    const signer = this.#signer;
    const x = encodeBase64url(signer.publicKey);
    const signature = encodeBase64url(signer.sign(keyClaim(this.#deps.sidecarId, x)));
    const certificate = await this.#deps.certify({ x, signature });
    if (certificate === null) return false;
    if (certificate.kid !== thumbprint(signer.publicKey) || certificate.x !== x)
      throw new Error('the control plane has certified another key');
    if (this.#deps.isCompromised(certificate.signing_key_id))
      throw new Error(
        'the control plane has certified it by a compromised key, as one that has not heard of it',
      );
    this.#certified = { signer, certificate };
    this.#times = {
      fromMs: must(parseTime(certificate.not_before), 'a certificate has times'),
      untilMs: must(parseTime(certificate.expires_at), 'a certificate has times'),
    };
    return true;
  }

  #isSignedInVain(): boolean {
    return this.#certified !== null && this.#deps.isCompromised(this.#certified.certificate.signing_key_id);
  }

  /** Receipts in the making are signed by the old one, which proves nothing any more. */
  async #replace(): Promise<void> {
    this.#times = { fromMs: 0, untilMs: 0 };
    try {
      await rm(fileIn(this.#deps), { force: true });
      this.#signer = this.#deps.ed25519.signer(await seedIn(this.#deps));
    } catch (error) {
      this.#deps.logger.error({ err: error }, 'a new key for receipts cannot be kept');
    }
  }
}

const fileIn = ({ folder }: Pick<ReceiptKeyDeps, 'folder'>): string => join(folder, 'receipt-key');

/** Made where there is none. Throws StartError for a file that holds anything else. */
async function seedIn(deps: Pick<ReceiptKeyDeps, 'folder' | 'random'>): Promise<Uint8Array> {
  const path = fileIn(deps);
  try {
    const seed = decodeBase64url((await readFile(path, 'utf8')).trimEnd());
    if (seed?.length !== 32)
      throw new StartError(`${path} contains no key. Restore it, or remove it to begin with a new key.`);
    return seed;
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
  }
  const seed = deps.random.bytes(32);
  await makeFolder(deps.folder, { mode: 0o700 });
  await rm(`${path}.new`, { force: true });
  const file = await open(`${path}.new`, 'wx', 0o600);
  await file
    .writeFile(`${encodeBase64url(seed)}\n`)
    .then(() => file.sync())
    .finally(() => file.close());
  // A kill before the rename is on disk leaves the next start without it: that makes a new one.
  await rename(`${path}.new`, path);
  return seed;
}
