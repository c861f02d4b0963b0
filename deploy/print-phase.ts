/** For a person who waits: a line for each phase when it begins, with the seconds since the program began. */
export const printPhase =
  (output: { write(text: string): unknown }) =>
  (what: string): void => {
    output.write(`${process.uptime().toFixed(1).padStart(6)} s  ${what}\n`);
  };
