import { ApiError } from '../../shared/errors/api-error.ts';
import { enforceLimits } from './limits.ts';

/** A copy of a body that waits for its turn. */
export interface KeptBody {
  /** Until `release` alone: the next body may be copied to the same place. */
  readonly bytes: Buffer;
  /** It waits no longer. To be called once. */
  release(): void;
}

/**
 * Copies of bodies that wait for their turn, bounded together. Those of a usual length are copied into places
 * that are used again and again: a buffer for each would be collected with the old generation of V8 alone,
 * because it has waited, and V8 collects that the sooner the more bytes its dead buffers hold. Under 64
 * callers with batches of 32 it did so five times a second.
 */
export class KeptBodies {
  readonly #free: Buffer[] = [];
  #bytes = 0;

  /** Throws `overloaded` where as many bytes as may wait are waiting. */
  keep(body: Buffer): KeptBody {
    const { byteLength } = body;
    if (this.#bytes + byteLength > enforceLimits.keptBytesMax) throw new ApiError('overloaded');
    this.#bytes += byteLength;
    const isUsual = byteLength <= enforceLimits.keptPlaceBytes;
    const place = isUsual ? this.#place() : Buffer.allocUnsafeSlow(byteLength);
    body.copy(place);
    return {
      bytes: place.subarray(0, byteLength),
      release: () => {
        this.#bytes -= byteLength;
        if (isUsual && this.#free.length < enforceLimits.keptPlacesMax) this.#free.push(place);
      },
    };
  }

  #place(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(enforceLimits.keptPlaceBytes);
  }
}
