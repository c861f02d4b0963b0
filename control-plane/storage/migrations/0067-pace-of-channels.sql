-- Messages to people are spread over time (channels/pace.ts): until when those that were sent use up the channel's allowance.
ALTER TABLE channels ADD COLUMN pace_at_ms bigint;
