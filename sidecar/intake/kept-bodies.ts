import { ApiError } from '../../shared/errors/api-error.ts';
import { intakeLimits } from './limits.ts';

/** A copy of a body that waits for its turn. */
export interface KeptBody {
  /** Until `release` alone: the next body may be copied to the same place. */
  readonly bytes: Buffer;
  /** It waits no longer. To be called once. */
  release(): void;
}

/**
 * Copies of bodies that wait for their turn, bounded together. Some of those of a usual length are copied
 * into places that are used again and again: a buffer for each would be collected with the old generation of
 * V8 alone, because it has waited, and V8 collects that the sooner the more bytes its dead buffers hold.
 * Under 64 callers with batches of 32 it did so five to ten times a second. Who finds no place has a buffer
 * of its own.
 */
export class KeptBodies {
  readonly #freePlaces: Buffer[] = [];
  #places = 0;
  #bytes = 0;

  /** Throws `overloaded` where as many bytes as may wait are waiting. */
  keep(body: Buffer): KeptBody {
    const { byteLength } = body;
    if (this.#bytes + byteLength > intakeLimits.keptBytesMax) throw new ApiError('overloaded');
    this.#bytes += byteLength;
    const place = byteLength <= intakeLimits.keptPlaceBytes ? this.#takePlace() : null;
    const bytes = place?.subarray(0, byteLength) ?? Buffer.allocUnsafeSlow(byteLength);
    body.copy(bytes);
    return {
      bytes,
      release: () => {
        this.#bytes -= byteLength;
        if (place !== null) this.#freePlaces.push(place);
      },
    };
  }

  #takePlace(): Buffer | null {
    const free = this.#freePlaces.pop();
    if (free !== undefined) return free;
    if (this.#places === intakeLimits.keptPlacesMax) return null;
    this.#places += 1;
    return Buffer.allocUnsafeSlow(intakeLimits.keptPlaceBytes);
  }
}
