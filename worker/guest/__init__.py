"""Work inside running guests, through their guest agent."""
