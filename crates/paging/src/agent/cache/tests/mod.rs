mod miniature;
mod model;
mod movement;
mod regions;
mod support;
mod traces;
