export interface TimedFile {
  readonly lane: string | null;
  readonly seconds: number;
}

/** Counted for a file that is not in the list: it takes less than a second. */
const secondsMin = 0.5;

/**
 * Each lane from the longest file to the shortest, and the lanes beside each other: at any moment the same
 * share of the time of each has passed. So files that wait and files that compute overlap, all lanes end
 * together, and the last files are short ones.
 */
export function interleave<File extends TimedFile>(files: readonly File[]): readonly File[] {
  const secondsOf = ({ seconds }: File) => Math.max(seconds, secondsMin);
  const lanes = new Set(files.map(({ lane }) => lane));
  const placed = [...lanes].flatMap((lane) => {
    const own = files.filter((file) => file.lane === lane).toSorted((a, b) => b.seconds - a.seconds);
    const total = own.reduce((sum, file) => sum + secondsOf(file), 0);
    let before = 0;
    return own.map((file) => {
      const share = before / total;
      before += secondsOf(file);
      return { file, share };
    });
  });
  return placed.toSorted((a, b) => a.share - b.share).map(({ file }) => file);
}
