import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { LineReplay } from '../../../cli/verify/replay-lines.ts';
import { must } from '../../../shared/errors/assert.ts';

/** Prints the report of a file, read a line at a time, without verifying it: a test has changed its lines. */
const file = must(process.argv[2], 'it is given a file');
const replay = new LineReplay();
for (const pass of ['learn', 'decide', 'decideAtLimits'] as const) {
  let place = 0;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    // A test has broken no line: that would be passed over.
    JSON.parse(line);
    replay[pass](line, ++place);
  }
}
process.stdout.write(JSON.stringify(replay.report()));
