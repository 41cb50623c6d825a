"""Producers write journals: simulated fleets, real servers, load generators."""
