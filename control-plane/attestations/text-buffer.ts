/** Text that is put together as UTF-8 in one piece of memory outside of the heap. */
export interface TextBuffer {
  add(text: string): void;
  /**
   * All that was added. The buffer is not to be used any more: its memory goes with the result, and whatever
   * still refers to the buffer does not keep it.
   */
  take(): Buffer;
}

/** UTF-8 takes at most three bytes for a UTF-16 code unit. */
const bytesPerUnitMax = 3;

const nothing = Buffer.alloc(0);

/**
 * Each text is written to its place at once: no string of them all is made, and no small buffers are copied
 * together. Holds `expectedBytes` at first and doubles where that is not enough.
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
