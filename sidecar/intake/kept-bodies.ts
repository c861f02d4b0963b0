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
 * Copies of bodies that wait for their turn, bounded together. Bodies of a usual length go into reused
 * buffers: a buffer that waits reaches the old generation of V8, and dead ones there make V8 collect it
 * several times a second. Where no reused buffer is free a body has one of its own.
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
