/**
 * Preloaded into a program under test (`NODE_OPTIONS=--import`), gives it the clocks of another machine:
 *
 *     CLOCK_AHEAD_MS    its wall clock is ahead by so much, or behind
 *     CLOCK_SLEEPS=1    whenever it is stopped (SIGSTOP) its machine sleeps: CLOCK_MONOTONIC, which
 *                       performance.now() reads, stands still for that time, and the uptime and the wall
 *                       clock go on, as on Linux
 */
const aheadMs = Number(process.env.CLOCK_AHEAD_MS ?? 0);
if (aheadMs !== 0) {
  const MachineDate = globalThis.Date;
  globalThis.Date = class WrongDate extends MachineDate {
    constructor(...parts) {
      if (parts.length === 0) super(MachineDate.now() + aheadMs);
      else super(...parts);
    }

    static now() {
      return MachineDate.now() + aheadMs;
    }
  };
}

if (process.env.CLOCK_SLEEPS === '1') {
  const read = performance.now.bind(performance);
  // A busy program reads it many times a second, and an idle one in its timers: a longer gap is a stop.
  const gapMsMax = 1_000;
  let lastMs = read();
  let sleptMs = 0;
  performance.now = () => {
    const nowMs = read();
    if (nowMs - lastMs > gapMsMax) sleptMs += nowMs - lastMs;
    lastMs = nowMs;
    return nowMs - sleptMs;
  };
}
