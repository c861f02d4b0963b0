/** Builds UTF-8 text in one off-heap buffer. */
export interface TextBuffer {
  add(text: string): void;
  /** The complete text. Do not use the buffer afterwards: its memory belongs to the result. */
  take(): Buffer;
}

/** UTF-8 takes at most three bytes for a UTF-16 code unit. */
const bytesPerUnitMax = 3;

const nothing = Buffer.alloc(0);

/**
 * Writes each text in place, without building one string or joining small buffers. Starts at `expectedBytes`
 * and doubles when full.
 */
export function textBuffer(expectedBytes: number): TextBuffer {
  let bytes = Buffer.allocUnsafeSlow(expectedBytes);
  let length = 0;
  return {
    add: (text) => {
      const needed = length + text.length * bytesPerUnitMax;
      if (needed > bytes.length) {
        const larger = Buffer.allocUnsafeSlow(Math.max(needed, bytes.length * 2));
        bytes.copy(larger, 0, 0, length);
        bytes = larger;
      }
      length += bytes.write(text, length);
    },
    take: () => {
      const taken = bytes.subarray(0, length);
      bytes = nothing;
      length = 0;
      return taken;
    },
  };
}
