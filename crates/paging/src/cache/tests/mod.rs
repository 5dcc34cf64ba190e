mod movement;
mod support;
mod traces;
